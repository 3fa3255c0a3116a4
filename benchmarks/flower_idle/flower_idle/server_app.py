"""FedAvg over two clients; when each round began is written to the file that the run names."""

import json
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


class Timed(FedAvg):
    """Tells when it deals."""

    begun: list[float] = []

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        messages = list(super().configure_train(server_round, arrays, config, grid))
        self.begun.append(time.time())
        return messages


@app.main()
def main(grid: Grid, context: Context) -> None:
    weights = ArrayRecord([np.zeros(int(context.run_config["weights"]), np.float32)])
    strategy = Timed(fraction_evaluate=0.0, min_train_nodes=2, min_available_nodes=2)
    strategy.start(grid=grid, initial_arrays=weights, num_rounds=int(context.run_config["rounds"]))
    target = Path(str(context.run_config["times"]))
    written = target.with_suffix(".part")
    written.write_text(json.dumps([*strategy.begun, time.time()]))
    written.rename(target)

"""`weei-agent predict MODULE CHECKPOINT`: ask a trained model on this machine, without a server."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from weei_agent.outcomes import Exit
from weei_agent.transfer import MIB
from weei_core import js_json
from weei_core.abi.limits import Limits
from weei_core.checkpoint_file import read_header, verify
from weei_core.errors import Conflict, Invalid, ModelError, WeeiError
from weei_core.jail.parent import InputFile, Jail
from weei_core.model_info import ModelInfo, parse_model_info
from weei_core.prediction import JsonObject, check_predicts, predict, prediction_input, shown_output


def main(arguments: Sequence[str]) -> int:
    options = predict_parser().parse_args(arguments)
    try:
        output = _predict(options)
    except ModelError as error:
        return _failed(Exit.MODEL_UNUSABLE, error.message)
    except WeeiError as error:
        return _failed(Exit.USAGE, error.message)
    except OSError as error:
        return _failed(Exit.USAGE, f"{error.filename or 'A file'} cannot be read: {error.strerror}.")
    except KeyboardInterrupt:
        return _failed(Exit.INTERRUPTED, "Interrupted.")
    print(js_json.dumps(output) if options.json else shown_output(output))
    return int(Exit.COMPLETED)


def predict_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="weei-agent predict",
        description="Asks a trained model. The module runs in a confined child of this machine; nothing is sent.",
    )
    add = parser.add_argument
    add("module", metavar="MODULE", type=Path, help="the model's .wasm file")
    add("checkpoint", metavar="CHECKPOINT", type=Path, help="a .weei-checkpoint file of that model")
    add("--input", metavar="JSON", help="the `input` of the module's predict")
    add("--text", help='a text to continue: short for --input \'{"text": …, "temperature": 0}\', or goes into it')
    add(
        "--auxiliary",
        action="append",
        default=[],
        metavar="ID=FILE",
        help="float32 weights for one of the model's auxiliary slots; may be repeated",
    )
    add("--memory-mib", type=int, default=2048, help="of the model; default: %(default)s")
    add("--json", action="store_true", help="the whole output, as one JSON object")
    return parser


def _predict(options: argparse.Namespace) -> JsonObject:
    asked = prediction_input(options.input, options.text)
    weights = _weights(options.checkpoint)
    limits = Limits(memory_bytes=max(options.memory_mib, 1) * MIB)
    with Jail(options.module, limits) as jail:
        told = jail.run({"operation": "describe"}, {"weights": weights})
        info = parse_model_info(str(told["modelInfo"]).encode())
        check_predicts(info)
        return predict(jail, asked, weights, _slots(info, options.auxiliary))


def _weights(path: Path) -> InputFile:
    """Where the weights lie in the file, every byte of which is checked."""
    with path.open("rb") as file:
        header = read_header(file, path.stat().st_size, check_model_info=_any, check_settings=_any)
        verify(file, header)
    return InputFile(path, header.weights_offset, header.weights_bytes)


def _any(value: object) -> None:
    """The module says itself what it is, and predicting needs no settings."""


def _slots(info: ModelInfo, given: Sequence[str]) -> dict[str, Path]:
    """The file of each slot, in the order that the model declares."""
    files = {}
    for text in given:
        slot, equals, path = text.partition("=")
        if not equals:
            raise Invalid(f"--auxiliary must be ID=FILE; found {text}.", field="auxiliary")
        files[slot] = Path(path)
    declared = [slot.id for slot in info.auxiliary_weights]
    if set(files) != set(declared):
        wanted, found = ", ".join(declared) or "none", ", ".join(files) or "none"
        raise Conflict(f"--auxiliary must fill the slots of the model: {wanted}; found {found}.", field="auxiliary")
    return {slot: files[slot] for slot in declared}


def _failed(code: Exit, message: str) -> int:
    print(message, file=sys.stderr)
    return int(code)

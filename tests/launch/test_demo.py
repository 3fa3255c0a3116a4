"""`make demo`: one story of four runs on the same data, told once and looked at by several tests."""

import os
import re
import signal
from dataclasses import dataclass, field

import httpx
import pytest

from tests.launch.program import Place, Program, wait

CHILDREN = {"valkey", "web", "fast", "slow", "agent-1", "agent-2"}


@dataclass
class Run:
    """What is left of a run: its output, its exit code, and what was looked at meanwhile."""

    program: Program
    code: int = 0
    facts: dict = field(default_factory=dict)

    @property
    def text(self):
        return self.program.text

    @property
    def rounds(self):
        return [int(number) for number in re.findall(r"^Round (\d+)/~\d+ · loss [\d.]+", self.text, re.MULTILINE)]


@pytest.fixture(scope="module")
def place():
    place = Place()
    yield place
    place.remove()


@pytest.fixture(scope="module")
def story(place):
    return [first_run(place), second_run(place), third_run(place), fourth_run(place)]


def first_run(place):
    """Reaches Round 3; the web server is killed, then the launcher itself."""
    with Program(place, "--demo", "--rest", "1") as program:
        run = Run(program)
        program.wait_for(r"^Round 3/")
        run.facts["states"] = place.states()
        run.facts["sign-in"] = use_sign_in_link(program)
        with Program(place, "--demo") as other:
            run.facts["other"] = (other.wait(), other.text)
        old = place.info("web")["pid"]
        os.kill(old, signal.SIGKILL)
        wait(lambda: place.info("web")["pid"] not in (0, old), "the web server to be started again")
        run.code = program.end(signal.SIGKILL)
        return run


def second_run(place):
    """Begins while the processes of the first still end; goes on; Ctrl-C."""
    with Program(place, "--demo", "--rest", "1") as program:
        run = Run(program)
        program.wait_for(r"^Round \d+/")
        run.code = program.end(signal.SIGINT)
        run.facts |= {"processes": place.processes(), "files": left_in(place.run_dir)}
        return run


def third_run(place):
    """Finishes the job; SIGTERM. Without a rest one agent may finish it before the other is up; the link is new in each
    run, and not valid any more then."""
    with Program(place, "--demo", "--rest", "0.3") as program:
        run = Run(program)
        program.wait_for(r"^The job is completed")
        agents = ("agent-1", "agent-2")
        wait(lambda: all(place.states()[name] == "EXITED" for name in agents), "the agents to end")
        run.facts["exit codes"] = [place.info(name)["exitstatus"] for name in agents]
        run.code = program.end(signal.SIGTERM)
        run.facts |= {"processes": place.processes(), "files": left_in(place.run_dir)}
        return run


def fourth_run(place):
    """On a job that is completed; beside it `make run` on another port and other data, whose manager is killed."""
    elsewhere = Place()
    with Program(place, "--demo") as program, Program(elsewhere) as other:
        run = Run(program)
        program.wait_for(r"^The job is completed")
        other.wait_for("^Ctrl-C stops everything")
        run.facts["states"] = place.states()
        found = {"states": elsewhere.states()}
        os.kill(int((elsewhere.run_dir / "supervisor.pid").read_text()), signal.SIGKILL)
        found |= {"code": other.wait(), "text": other.text, "processes": elsewhere.processes()}
        run.facts["elsewhere"] = found
        run.code = program.end(signal.SIGHUP)
        run.facts |= {"processes": place.processes(), "files": left_in(place.run_dir)}
    elsewhere.remove()
    return run


def left_in(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != "launch.lock")


def use_sign_in_link(program):
    """(where the first use of the printed link leads, the status of a second)."""
    link = program.wait_for(r"^  (http://localhost:\d+/sign-in/\S+)$")[1]
    origin = f"http://localhost:{program.place.port}"
    with httpx.Client(follow_redirects=True, timeout=30) as client:
        page = client.get(link)
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
        answer = client.post(link, data={"csrfmiddlewaretoken": token[1]}, headers={"Origin": origin})
    return answer.status_code, answer.url.path, httpx.get(link, timeout=30).status_code, "owner" in page.text


def test_it_says_what_it_does_and_prints_both_links(story, place):
    text = story[0].text
    expected = ["Preparing the database", "Creating the digits job", "Starting valkey, web", "Weei is running"]
    assert [text.count(line) for line in expected] == [1, 1, 1, 1]
    assert re.search(rf"^  http://[\w.]+:{place.port}/join/\S+$", text, re.MULTILINE)
    assert "Both agents are ready: the job starts." in text
    assert "WARNING" not in text.partition("Weei is running")[0], "the broker is not up yet; that is no news"


def test_each_finished_round_is_one_line_with_loss_and_accuracy(story):
    rounds = [number for run in story for number in run.rounds]
    assert story[0].rounds[:3] == [1, 2, 3]
    assert sorted(set(rounds)) == rounds, "a round was told twice, or out of order"
    accuracy = [float(found) for found in re.findall(r"validation accuracy ([\d.]+)", story[2].text)]
    assert accuracy[-1] >= 0.93


def test_the_sign_in_link_signs_the_owner_in_once(story):
    status, path, again, named = story[0].facts["sign-in"]
    assert (status, path, again, named) == (200, "/jobs/", 404, True)


def test_every_process_runs_under_the_process_manager(story):
    assert story[0].facts["states"] == dict.fromkeys(CHILDREN, "RUNNING")


def test_a_second_run_on_the_same_data_is_refused_in_one_sentence(story):
    code, text = story[0].facts["other"]
    assert code == 1
    assert re.fullmatch(r"Weei is running here already \(process \d+\)\. Stop it, or choose another .+\.", text)
    assert story[0].program.process.pid == int(re.search(r"process (\d+)", text)[1])


def test_a_run_beside_it_has_its_own_port_and_data(story):
    elsewhere = story[3].facts["elsewhere"]
    assert elsewhere["states"] == dict.fromkeys(("valkey", "web", "fast", "slow"), "RUNNING")
    assert re.search(r"^  http://localhost:\d+/sign-in/\S+$", elsewhere["text"], re.MULTILINE)
    assert "Invitation" not in elsewhere["text"]


def test_a_killed_process_manager_leaves_no_process_behind(story):
    elsewhere = story[3].facts["elsewhere"]
    assert elsewhere["code"] == 1 and elsewhere["processes"] == []
    assert re.search(r"^The process manager ended; see /.+/supervisor\.log$", elsewhere["text"], re.MULTILINE)


def test_a_run_goes_on_where_a_killed_one_was(story):
    killed, second, third, _ = story
    assert killed.code == -signal.SIGKILL
    assert "Creating" not in second.text + third.text
    assert re.search(r"Going on with the digits job of the last run, which has [1-9]\d* rounds\.", second.text)
    assert second.rounds[0] > killed.rounds[-1]
    assert "The job is completed" in third.text


def test_a_signal_stops_every_process_and_removes_the_sockets(story):
    for run in story[1:]:
        assert run.code == 0 and "Stopping …" in run.text
        assert run.facts["processes"] == []
        assert run.facts["files"] == ["supervisor.conf"]


def test_a_completed_job_gets_no_agents_and_no_invitation(story):
    last = story[3]
    assert last.facts["states"] == dict.fromkeys(("valkey", "web", "fast", "slow"), "RUNNING")
    assert "Invitation" not in last.text and last.rounds == []


def test_agents_end_with_their_job_and_stay_ended(story):
    assert story[2].facts["exit codes"] == [0, 0]

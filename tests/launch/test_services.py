"""The processes of an installation, for supervisor."""

import configparser
import shlex

from weei_site.launch import services


def written(tmp_path, *chosen):
    services.write_configuration(tmp_path / "conf", list(chosen), run_dir=tmp_path, log_dir=tmp_path / "100%")
    parser = configparser.RawConfigParser()
    parser.read(tmp_path / "conf")
    return parser


def test_a_process_is_restarted_whatever_its_exit_code(tmp_path):
    program = written(tmp_path, services.web("0.0.0.0", 8000))["program:web"]
    assert program["autorestart"] == "true" and int(program["startretries"]) >= 1000
    assert program["stopasgroup"] == program["killasgroup"] == "true"


def test_an_agent_stays_ended_when_trying_again_is_no_use(tmp_path):
    """docs/agent.md: 0 completed, 3 refused, 4 removed, 5 replaced, 7 and 8 cannot work here."""
    program = written(tmp_path, services.agent("agent-1", "http://localhost/join/x/", tmp_path, 1))["program:agent-1"]
    assert program["autorestart"] == "unexpected" and program["exitcodes"] == "0,3,4,5,7,8"
    assert program["startsecs"] == "0", "supervisor would start one again that ends within a second"


def test_percent_signs_reach_the_processes(tmp_path):
    parser = written(tmp_path, *services.workers())
    assert "fast@%%h" in parser["program:fast"]["command"]
    assert "100%%" in parser["program:slow"]["stdout_logfile"]


def test_the_web_server_guards_itself():
    command = shlex.split(services.web("127.0.0.1", 8000).command)
    options = dict(zip(command, command[1:], strict=False))
    assert options["--http"] == "weei_site.http_guard:GuardedHttp"
    assert options["--ws-per-message-deflate"] == "false" and int(options["--ws-max-size"]) == 65536

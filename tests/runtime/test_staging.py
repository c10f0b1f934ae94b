import subprocess
import sys
import threading

from suite.runtime.staging import agent_digest, agent_files, stage_agent


def test_the_agent_alone_is_staged_and_can_be_imported_there(tmp_path):
    folder = stage_agent(tmp_path)
    assert folder.name == agent_digest()
    staged = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert staged == {"suite/__init__.py"} | {f"suite/agent/{name}" for name in agent_files()}
    code = "import suite.agent.job as j, sys; print(j.__file__); import suite.errors"
    done = subprocess.run(
        [sys.executable, "-P", "-S", "-c", code],
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == str(folder / "suite" / "agent" / "job.py")
    assert "No module named 'suite.errors'" in done.stderr


def test_no_file_of_the_agent_imports_another_part_of_the_suite():
    from suite.runtime.staging import _ROOT

    for name in agent_files():
        for line in (_ROOT / name).read_text().splitlines():
            if line.strip().startswith(("from suite", "import suite")):
                assert line.split()[1].startswith("suite.agent"), f"{name}: {line}"


def test_the_digest_depends_on_names_and_bytes_only(tmp_path):
    folder = stage_agent(tmp_path)
    assert stage_agent(tmp_path) == folder
    agent = folder / "suite" / "agent"
    (agent / "__pycache__").mkdir()
    (agent / "__pycache__" / "job.pyc").write_bytes(b"x")
    assert agent_digest(agent) == agent_digest()
    (agent / "job.py").write_text("")
    assert agent_digest(agent) != agent_digest()


def test_a_staged_copy_that_was_changed_is_replaced(tmp_path):
    folder = stage_agent(tmp_path)
    (folder / "suite" / "agent" / "extra.py").write_text("raise SystemExit")
    (folder / "suite" / "agent" / "job.py").write_text("raise SystemExit")
    assert stage_agent(tmp_path) == folder
    assert agent_digest(folder / "suite" / "agent") == agent_digest()
    assert not (folder / "suite" / "agent" / "extra.py").exists()


def test_several_at_once_stage_one_copy(tmp_path):
    found = []
    threads = [threading.Thread(target=lambda: found.append(stage_agent(tmp_path))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert len(found) == 6
    assert [path.name for path in (tmp_path / "agent").iterdir()] == [agent_digest()]

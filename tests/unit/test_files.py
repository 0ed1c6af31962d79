from __future__ import annotations

from support import processes


def test_a_file_that_grows_too_large_is_named(packed, tmp_path):
    code = (
        "import resource, signal, sys\nfrom penstock.cli import main\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "before = resource.getrlimit(resource.RLIMIT_FSIZE)\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))\n"
        # Lifted again: what measures coverage writes a file of its own when the process ends.
        "try:\n    main(sys.argv[1:])\nfinally:\n    resource.setrlimit(resource.RLIMIT_FSIZE, before)"
    )
    done = processes.run("-c", code, "show", packed.folder, "-o", tmp_path / "s.png")

    assert done.returncode == 2
    assert done.stderr == (
        f"error: {tmp_path}/s.png: expected a path that can be read and written, found file too large. Check the path, "
        "its permissions and the room on the disk.\n"
    )

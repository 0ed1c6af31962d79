"""Where the time of a step goes, as a Chrome trace."""

from __future__ import annotations

from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from penstock.session import Hook, Session, Steps


class Profile(Hook):
    """Records every so many steps one, as profile-NNNNNNNN.json: open it in chrome://tracing or ui.perfetto.dev."""

    def __init__(self, folder: Path, interval: int) -> None:
        self.folder, self.every = folder, Steps(interval)
        self._profile: profile | None = None

    def before_step(self, session: Session) -> None:
        """Begin."""
        on_cuda = [ProfilerActivity.CUDA] if torch.cuda.is_available() else []
        self._profile = profile(activities=[ProfilerActivity.CPU, *on_cuda])
        self._profile.start()

    def after_step(self, session: Session) -> None:
        """Write what was recorded."""
        if self._profile is not None:
            self._profile.stop()
            self.folder.mkdir(exist_ok=True)
            self._profile.export_chrome_trace(str(self.folder / f"profile-{session.step:08d}.json"))
            self._profile = None

    def on_end(self, session: Session) -> None:
        """Leave no profiler running behind a step that failed."""
        if self._profile is not None:
            self._profile.stop()
            self._profile = None

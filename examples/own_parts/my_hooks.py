"""Hooks of one's own: `penstock train DATA --hook examples/own_parts/my_hooks.py:StopAt`."""

import json

from penstock import Hook


class StopAt(Hook):
    """Stops when the loss is low enough."""

    def __init__(self, loss=0.05):
        self.loss = loss

    def after_step(self, session):
        """Look at the loss of the step."""
        if session.loss < self.loss:
            session.request_stop(f"the loss is below {self.loss}")


class Norms(Hook):
    """Writes the norm of the weights to norms.jsonl in the run's folder, and goes on counting after a resume."""

    def __init__(self, folder):
        self.path = folder / "norms.jsonl"
        self.lines = 0

    def after_step(self, session):
        """Append a line."""
        norm = sum(float(parameter.detach().norm()) ** 2 for parameter in session.model.parameters()) ** 0.5
        self.lines += 1
        with self.path.open("a") as file:
            file.write(json.dumps({"step": session.step, "norm": norm, "line": self.lines}) + "\n")

    def state_dict(self):
        """What a checkpoint keeps."""
        return {"lines": self.lines}

    def load_state_dict(self, state):
        """What a checkpoint kept; {} at the start."""
        self.lines = state.get("lines", 0)

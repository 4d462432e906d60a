"""A server and its clients on a virtual clock, in a network where everything goes wrong, from one number.

The rooms, the views and the clients' machines are the real ones. Time, the log, the network and the agents are not.
"""

from __future__ import annotations

from interlock.testing.sim.weather import Fault as Fault
from interlock.testing.sim.world import Report as Report
from interlock.testing.sim.world import SimulationFailed as SimulationFailed
from interlock.testing.sim.world import simulate as simulate

__all__ = ["Fault", "Report", "SimulationFailed", "simulate"]

"""PyPSA networks of our own: meshed AC with DC links, storage with inflow, many buses."""

import logging
from itertools import pairwise

import numpy as np
import pandas as pd
import pypsa

logging.getLogger("pypsa").setLevel(logging.ERROR)
logging.getLogger("linopy").setLevel(logging.ERROR)


def _empty(hours, weight=1.0):
    network = pypsa.Network()
    network.set_snapshots(pd.date_range("2030-01-01", periods=hours, freq="h"))
    network.snapshot_weightings.loc[:, :] = weight
    for carrier, emissions in (("AC", 0), ("DC", 0), ("gas", 0.2), ("coal", 0.34), ("wind", 0)):
        network.add("Carrier", carrier, co2_emissions=emissions)
    network.add("Carrier", "battery")
    return network


def meshed(cap=450.0):
    """Nine buses in three countries, loops of AC lines, DC links, capacities to choose, a cap."""
    network, rng = _empty(10, weight=3.0), np.random.default_rng(4)
    times = network.snapshots
    for k in range(9):
        network.add("Bus", f"bus{k}", country="ABC"[k // 3], carrier="AC")
    for a, b in [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3), (1, 4), (6, 7), (7, 8)]:
        network.add("Line", f"line{a}{b}", bus0=f"bus{a}", bus1=f"bus{b}", carrier="AC",
                    x=rng.uniform(0.05, 0.2), r=0.01, s_nom=rng.uniform(40, 90))  # fmt: skip
    for a, b in [(0, 6), (5, 8)]:
        network.add("Link", f"dc{a}{b}", bus0=f"bus{a}", bus1=f"bus{b}", carrier="DC", p_min_pu=-1,
                    p_nom_extendable=True, p_nom_max=80, capital_cost=40.0)  # fmt: skip
    for k in range(9):
        bus = f"bus{k}"
        load = pd.Series(rng.uniform(20, 60, 10), times)
        network.add("Load", f"load{k}", bus=bus, p_set=load)
        network.add("Generator", f"gas{k}", bus=bus, carrier="gas", p_nom_extendable=True,
                    capital_cost=90.0, marginal_cost=rng.uniform(40, 60))  # fmt: skip
        wind = pd.Series(rng.uniform(0, 1, 10), times)
        network.add("Generator", f"wind{k}", bus=bus, carrier="wind", p_nom_extendable=True,
                    p_nom_max=140, capital_cost=rng.uniform(700, 1500), p_max_pu=wind)  # fmt: skip
    network.add("GlobalConstraint", "co2", type="primary_energy", sense="<=", constant=cap,
                carrier_attribute="co2_emissions")  # fmt: skip
    return network


def stored():
    """Three regions with batteries, a reservoir with inflow, a hydrogen store and HVDC links."""
    network, rng = _empty(24), np.random.default_rng(9)
    times = network.snapshots
    for k, region in enumerate(("north", "north", "south", "south", "east")):
        network.add("Bus", f"b{k}", region=region)
        day = 40 + 15 * np.sin((np.arange(24) - 7) * np.pi / 12) + rng.uniform(0, 5, 24)
        network.add("Load", f"load{k}", bus=f"b{k}", p_set=pd.Series(day, times))
        network.add("Generator", f"gas{k}", bus=f"b{k}", carrier="gas", p_nom=60,
                    marginal_cost=rng.uniform(40, 70), ramp_limit_up=0.3, ramp_limit_down=0.3,
                    marginal_cost_quadratic=0.02)  # fmt: skip
        sun = pd.Series(np.clip(np.sin((np.arange(24) - 6) * np.pi / 12), 0, 1), times)
        network.add("Generator", f"sun{k}", bus=f"b{k}", carrier="wind", p_nom=50, p_max_pu=sun)
        network.add("StorageUnit", f"battery{k}", bus=f"b{k}", carrier="battery", p_nom=15,
                    max_hours=4, efficiency_store=0.95, efficiency_dispatch=0.9,
                    cyclic_state_of_charge=True, standing_loss=0.005)  # fmt: skip
    for a, b in pairwise(range(5)):
        network.add("Link", f"hvdc{a}", bus0=f"b{a}", bus1=f"b{b}", carrier="DC", p_nom=25,
                    p_min_pu=-1)  # fmt: skip
    network.add("StorageUnit", "lake", bus="b4", carrier="battery", p_nom=30, max_hours=20,
                efficiency_store=0.0, inflow=pd.Series(rng.uniform(2, 12, 24), times),
                state_of_charge_initial=100)  # fmt: skip
    network.add("Bus", "tank", region="south")
    network.add("Link", "electrolyser", bus0="b2", bus1="tank", p_nom=20, efficiency=0.7)
    network.add("Link", "turbine", bus0="tank", bus1="b2", p_nom=20, efficiency=0.5)
    network.add("Store", "hydrogen", bus="tank", e_nom=100, e_cyclic=True)
    return network


def wide(buses=24, hours=6, regions=4, seed=2):
    """A ring of buses with chords, in regions, with plants of linear cost."""
    network, rng = _empty(hours), np.random.default_rng(seed)
    times = network.snapshots
    for k in range(buses):
        network.add("Bus", f"b{k}", zone=f"z{k * regions // buses}")
        load = (
            30 + 10 * np.sin((np.arange(hours) - 3) * 2 * np.pi / hours) + rng.uniform(0, 9, hours)
        )
        network.add("Load", f"load{k}", bus=f"b{k}", p_set=pd.Series(load, times))
        network.add("Generator", f"shed{k}", bus=f"b{k}", p_nom=60, marginal_cost=3000.0)
    for k in range(buses // 2):
        at = f"b{rng.integers(buses)}"
        network.add("Generator", f"coal{k}", bus=at, carrier="coal", p_nom=rng.uniform(60, 150),
                    marginal_cost=rng.uniform(20, 60))  # fmt: skip
        wind = pd.Series(rng.uniform(0, 1, hours), times)
        network.add("Generator", f"wind{k}", bus=at, carrier="wind", p_nom=50, p_max_pu=wind)
    chords = rng.integers(buses, size=(buses // 4, 2))
    pairs = [(k, (k + 1) % buses) for k in range(buses)] + [(a, b) for a, b in chords if a != b]
    for k, (a, b) in enumerate(pairs):
        network.add("Line", f"line{k}", bus0=f"b{a}", bus1=f"b{b}", x=rng.uniform(0.02, 0.1),
                    r=0.01, s_nom=rng.uniform(60, 120))  # fmt: skip
    return network

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What several nodes bring to `kmerformer pretrain`: a model of a step, and its check by measurement.

    scripts/mpi_model.py predict --parameters 12.4e6 --compute 1.5
    scripts/mpi_model.py measure [--program build/mpi/bench/bench_ranks]

Ranks share a step by its shards, and sum up their gradients before the update (src/learn/ranks.c):
log2 R exchanges in which what is still to be summed is halved each time, and as many in which the
sums come back. A rank sends and receives, of P parameters in float32,

    bytes(R) = 2 * 4 P (1 - 1/R)

and a step takes, nothing of it at the same time as another,

    step(R)  = compute / R + update + sum(R)
    sum(R)   = 2 log2(R) latency + bytes(R) / bandwidth + (1 - 1/R) add + 2 log2(R) latency

    compute    gradients of the whole batch on one rank
    update     AdamW, which every rank does for all parameters
    latency    of a message, one way; the last term is that of the small all-reduces: statistics
               of the shards, and whether a signal has come
    bandwidth  of one direction; both are used at once
    add        adding P floats in memory

`predict` prints this for R = 1 .. 64 and some bandwidths, with the efficiency: one rank's time by R
times that of R ranks (strong), and with a batch that grows with R (weak). Nothing is assumed of the
network but that it carries all pairs at once; that is worst for the few floats of the last
exchanges, as neighbours exchange most.

`measure` runs bench_ranks on 1, 2 and 4 ranks of this machine (bytes that were really sent, and
seconds), fits latency and bandwidth to 2 ranks alone, and prints what that predicts for 4 beside
what was measured. More ranks than cores share them: all times are then multiplied by ranks / cores.
With --pretrain PROGRAM, built with MPI=1, and a genome it does the same for steps of the program:
compute comes from one rank of one thread, the rest from the fit. Python 3.7, nothing else.
"""
import argparse
import csv
import math
import os
import statistics
import subprocess
import sys
import tempfile

UPDATE = 4e-9  # seconds for a parameter: about 40 bytes of memory, at 10 GB/s
ADD = 1.2e-9   # 12 bytes


def sent(parameters, ranks):
    return 2 * 4 * parameters * (1 - 1 / ranks)


def sum_time(parameters, ranks, latency, bandwidth, add):
    """Seconds; bandwidth in bytes a second, add in seconds a float."""
    return (2 * math.log2(ranks) * latency + sent(parameters, ranks) / bandwidth
            + (1 - 1 / ranks) * parameters * add)


def step_time(compute, update, parameters, ranks, latency, bandwidth, add):
    return (compute / ranks + update + sum_time(parameters, ranks, latency, bandwidth, add)
            + 2 * math.log2(ranks) * latency)


def predict(a):
    update = a.update if a.update is not None else UPDATE * a.parameters
    add = a.add * 1e-9
    latency = a.latency * 1e-6
    print(f"{a.parameters / 1e6:.2f} M parameters, {a.compute:g} s of gradients and {update:.3g} s "
          f"of update on one rank; latency {a.latency:g} us, adding {a.add:g} ns a float")
    for gigabits in a.bandwidth:
        print(f"\n{gigabits:g} Gb/s")
        print("ranks\tMB_sent\tsum_s\tstep_s\tspeedup\tefficiency\tweak_efficiency")
        one = step_time(a.compute, update, a.parameters, 1, latency, gigabits * 1e9 / 8, add)
        for ranks in (1, 2, 4, 8, 16, 32, 64):
            net = (a.parameters, ranks, latency, gigabits * 1e9 / 8, add)
            step = step_time(a.compute, update, *net)
            weak = step_time(a.compute * ranks, update, *net)
            print(f"{ranks}\t{sent(a.parameters, ranks) / 1e6:.1f}\t{sum_time(*net):.4f}\t"
                  f"{step:.4f}\t{one / step:.2f}\t{one / step / ranks:.3f}\t{one / weak:.3f}")


def mpirun(ranks, command):
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
               OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_mpi_yield_when_idle="1")
    done = subprocess.run(["mpirun", "-n", str(ranks)] + command, env=env, text=True,
                          stdout=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"mpi_model: mpirun -n {ranks} {' '.join(command)}: exit status {done.returncode}")
    return done.stdout


def fit(rows):
    """Latency, of the smallest sum; bandwidth, by least squares of relative errors."""
    latency = min(rows, key=lambda r: r["floats"])["seconds"] / 2
    up = down = 0.0
    for r in rows:
        if r["floats"] >= 100000:
            rest = r["seconds"] - 2 * latency - r["add_seconds"] / 2
            up += r["bytes_sent"] * rest / r["seconds"] ** 2
            down += (r["bytes_sent"] / r["seconds"]) ** 2
    if up <= 0:
        sys.exit("mpi_model: no bandwidth can be told from these sums: larger --floats")
    return latency, down / up


def measure(a):
    cores = len(os.sched_getaffinity(0))
    rows = {}
    for ranks in a.ranks:
        text = mpirun(ranks, [a.program] + [str(n) for n in a.floats])
        rows[ranks] = [{k: float(v) for k, v in row.items()}
                       for row in csv.DictReader(text.splitlines())]
    latency, bandwidth = fit(rows[2])
    print(f"{cores} cores; fitted to 2 ranks: latency {1e6 * latency:.1f} us, "
          f"bandwidth {8e-9 * bandwidth:.1f} Gb/s\n")
    print("ranks\tfloats\tbytes_sent\tpredicted\tsum_s\tpredicted_s\tmeasured/predicted")
    for ranks in a.ranks:
        for r in rows[ranks]:
            add = r["add_seconds"] / r["floats"] if ranks == 1 else next(
                q["add_seconds"] / q["floats"] for q in rows[2] if q["floats"] == r["floats"])
            guess = sum_time(r["floats"], ranks, latency, bandwidth, add) * max(1, ranks / cores)
            ratio = f"{r['seconds'] / guess:.2f}" if ranks > 1 else "-"
            print(f"{ranks}\t{r['floats']:.0f}\t{r['bytes_sent']:.0f}\t"
                  f"{sent(r['floats'], ranks):.0f}\t{r['seconds']:.6f}\t{guess:.6f}\t{ratio}")
    if a.pretrain:
        big = max(rows[2], key=lambda r: r["floats"])
        measure_steps(a, cores, latency, bandwidth, big["add_seconds"] / big["floats"])


def steps_of(a, ranks, folder):
    """Seconds of a step, the median of those after the first, and the number of parameters."""
    out = os.path.join(folder, f"ranks{ranks}")
    mpirun(ranks, [a.pretrain, "pretrain", "-q", "--preset", a.preset, "-k", "6", "--window", "128",
                   "--batch", str(a.batch), "--shards", "4", "--steps", str(a.steps), "-t", "1",
                   "--metrics-every", "1", "-o", out, a.genome])
    with open(os.path.join(out, "metrics.tsv"), encoding="utf-8") as f:
        lines = list(csv.DictReader(f, delimiter="\t"))
    tokens = [int(r["tokens"]) for r in lines]
    seconds = [(tokens[i] - tokens[i - 1]) / float(lines[i]["tokens_per_s"])
               for i in range(1, len(lines))]
    info = subprocess.run([a.pretrain, "info", "-q", out], text=True, stdout=subprocess.PIPE, check=True)
    parameters = next(line.split("\t")[1] for line in info.stdout.splitlines()
                      if line.startswith("parameters\t"))
    return statistics.median(seconds), int(parameters)


def measure_steps(a, cores, latency, bandwidth, add):
    with tempfile.TemporaryDirectory(prefix="mpi_model.") as folder:
        measured = {ranks: steps_of(a, ranks, folder) for ranks in a.ranks}
    one, parameters = measured[1]
    update = min(UPDATE * parameters, one)
    print(f"\npretrain --preset {a.preset}, {parameters / 1e6:.2f} M parameters, {a.batch} windows "
          f"of 128 tokens, 4 shards, one thread a rank; medians of {a.steps - 1} steps")
    print("ranks\tstep_s\tpredicted_s\tmeasured/predicted\tspeedup")
    for ranks in a.ranks:
        guess = step_time(one - update, update, parameters, ranks, latency, bandwidth, add)
        guess *= max(1, ranks / cores)
        print(f"{ranks}\t{measured[ranks][0]:.4f}\t{guess:.4f}\t{measured[ranks][0] / guess:.2f}\t"
              f"{one / measured[ranks][0]:.2f}")


def numbers(text):
    return [float(x) for x in text.split(",")]


def whole_numbers(text):
    return [int(x) for x in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = parser.add_subparsers(dest="command", required=True)
    p = sub.add_parser("predict", help="step time and efficiency for 1 to 64 ranks")
    p.add_argument("--parameters", type=float, required=True, metavar="P",
                   help="of the model; pretrain tells them")
    p.add_argument("--compute", type=float, required=True, metavar="S",
                   help="seconds for the gradients of a step on one rank")
    p.add_argument("--update", type=float, metavar="S", help="seconds [4 ns a parameter]")
    p.add_argument("--bandwidth", type=numbers, default=[10, 100], metavar="B,...",
                   help="Gb/s [10,100]")
    p.add_argument("--latency", type=float, default=20, metavar="US", help="microseconds [20]")
    p.add_argument("--add", type=float, default=ADD * 1e9, metavar="NS",
                   help="nanoseconds a float [%(default)g]")
    p.set_defaults(run=predict)
    m = sub.add_parser("measure", help="bench_ranks on this machine beside the model")
    m.add_argument("--program", default="build/mpi/bench/bench_ranks", metavar="FILE")
    m.add_argument("--ranks", type=whole_numbers, default=[1, 2, 4], metavar="R,...")
    m.add_argument("--floats", type=whole_numbers, metavar="N,...", help="[%(default)s]",
                   default=[64, 16384, 1000000, 4000000, 12380000])
    m.add_argument("--pretrain", metavar="PROGRAM", help="kmerformer, built with MPI=1: steps as well")
    m.add_argument("--genome", default="data/contigs.fa.gz", metavar="FASTA")
    m.add_argument("--preset", default="tiny", help="[%(default)s]")
    m.add_argument("--batch", type=int, default=16, help="[%(default)s]")
    m.add_argument("--steps", type=int, default=12, help="[%(default)s]")
    m.set_defaults(run=measure)
    a = parser.parse_args()
    a.run(a)


if __name__ == "__main__":
    main()

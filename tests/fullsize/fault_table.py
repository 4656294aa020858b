"""The cost of each kind of fault: calls, streams, records, memory, handles and threads."""

import collections

# Faults that may cost no request: the lost server is not needed for an answer, and a balancer notices a drain in time.
HARMLESS = {
    "redis is restarted", "postgresql is restarted", "postgresql is frozen", "configurations are reloaded", "settings are rolled back",
    "a gateway is drained",
}  # fmt: skip
# Streams and gRPC calls end only with their gateway.
ENDS_GATEWAYS = {"a gateway is killed", "a gateway is drained"}
END = "the end of a fault"

COLUMNS = ("calls", "lost", "wrong", "not billed", "billed twice", "streams cut", "gRPC failed")
RESOURCES = ("MiB", "handles", "threads")


class FaultTable:
    """Counts for each kind of fault, and for the time without one, whose name is empty."""

    def __init__(self):
        self.counts = collections.defaultdict(collections.Counter)
        self.times = collections.Counter()
        self.added = collections.defaultdict(lambda: [0.0, 0, 0])

    def count(self, kind, column, number=1):
        assert column in COLUMNS, column
        self.counts[kind][column] += number

    def survived(self, kind, before, after):
        """Records the end of a fault of this kind, with the resources of the gateway that is never restarted before and
        after it."""
        self.times[kind] += 1
        for place, (old, new) in enumerate(zip(before, after)):
            self.added[kind][place] += new - old

    def sum(self, column):
        return sum(counts[column] for counts in self.counts.values())

    def lines(self):
        """Returns a line for each kind, below one of names."""
        kinds = sorted(set(self.counts) | set(self.times))
        width = max((len(kind or "without a fault") for kind in kinds), default=0)
        names = [*COLUMNS, *(f"{name} added" for name in RESOURCES)]
        yield " ".join([f"{'fault':{width}}", f"{'times':>6}", *(f"{name:>13}" for name in names)])
        for kind in kinds:
            cells = [f"{self.counts[kind][column]:>13,}" for column in COLUMNS]
            added = self.added.get(kind)
            cells += [f"{value:>13.1f}" if isinstance(value, float) else f"{value:>13,}" for value in added or ()]
            yield " ".join([f"{kind or 'without a fault':{width}}", f"{self.times[kind]:>6}", *cells])

    def judge(self, run, promise):
        """Checks the losses that are forbidden in faults of a kind, or in any."""
        for kind in sorted({*HARMLESS, ""}):
            name = kind or "no fault"
            run.say(promise, f"requests lost while {name}", self.counts[kind]["lost"], 0, "")
        for column in ("streams cut", "gRPC failed"):
            # A gateway that ends is neither that of the streams nor that of gRPC.
            number = sum(counts[column] for kind, counts in self.counts.items() if kind not in ENDS_GATEWAYS | {END})
            run.say(promise, f"{column}, though no gateway ended", number, 0, "")
        for column in ("wrong", "not billed", "billed twice"):
            run.say(promise, f"answers {column}", self.sum(column), 0, "")

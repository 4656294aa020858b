"""The content of a gateway's usage database."""

from .journal import events, frames


class Ledger:
    """The content of a gateway's usage database."""

    def __init__(self, gateway):
        self.database = gateway.database

    def events(self):
        for (block,) in self.database.rows("SELECT bytes FROM blocks ORDER BY id"):
            yield from events(frames(block))

    def sums(self):
        """Returns by chain and method: calls, charged calls, Compute Units, errors, rejected, cache hits, bytes in,
        bytes out."""
        metrics = "requests billed_requests billable_units errors rejected cache_hits request_bytes response_bytes".split()
        columns = ", ".join(f"SUM({metric})" for metric in metrics)
        rows = self.database.rows(f"SELECT chain, method, {columns} FROM rollups GROUP BY chain, method")
        return {(chain, method): tuple(sums) for chain, method, *sums in rows}

    def total(self):
        """Returns calls and Compute Units."""
        sums = self.sums().values()
        return sum(row[0] for row in sums), sum(row[2] for row in sums)

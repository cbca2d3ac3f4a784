from pz_postgres.settings import Settings
class TableSink:
    def __init__(self, s: Settings): self.s=s

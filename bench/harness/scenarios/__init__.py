"""One file a scenario: measure(bench, peer) gives the Samples of one turn of one peer. A file with OURS_ALONE = True is about
something that only quern is asked to do. The order here is the order of the table."""
from . import (accuracy, batch, cold_start, context, crowd, idle, intruder, kv, load, neighbour, over_http, prefix, prefix_disk,
               schema, single_stream, speculation)

ALL = {module.__name__.rpartition(".")[2]: module for module in (
    single_stream, batch, context, load, intruder, neighbour, cold_start, accuracy, crowd, over_http, prefix, prefix_disk,
    speculation, kv, idle, schema)}

"""The public names of `moot.evals`, the only list of them: documentation and tests are generated from it."""

from ._benchmarks.catalogue import Benchmark as Benchmark
from ._benchmarks.records import Item as Item
from ._runs.plan import Plan as Plan
from ._runs.plan import make_plan as make_plan
from ._runs.plan import read_plan as read_plan
from ._runs.run import run_plan as run_plan
from ._runs.scorers import judged as judged
from ._runs.scorers import measured as measured
from ._runs.solver import DebateFailed as DebateFailed
from ._runs.solver import debate as debate
from ._runs.solver import document_in as document_in
from ._runs.tasks import benchmark_task as benchmark_task
from ._stats.calibration import brier_score as brier_score
from ._stats.calibration import ece as ece
from ._stats.calibration import risk_coverage as risk_coverage
from ._stats.metrics import accuracy as accuracy
from ._stats.metrics import balanced_accuracy as balanced_accuracy
from ._stats.metrics import macro_f1 as macro_f1
from ._stats.sample_size import minimum_detectable_effect as minimum_detectable_effect
from ._stats.sample_size import power as power
from ._stats.significance import bootstrap as bootstrap
from ._stats.significance import holm as holm
from ._stats.significance import mcnemar as mcnemar
from ._stats.significance import sign_flips as sign_flips
from ._stats.significance import wilson as wilson

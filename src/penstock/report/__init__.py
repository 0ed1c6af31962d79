"""Images and pages for people.

sheets.py   image grids: of records, of what the network is fed, of a step, of predictions
figures.py  scores as HTML: bars, confusion matrix, precision over recall
curves.py   values over steps as SVG, whose values can be asked for
summary.py  the head of a report: what was trained on what
template.py the page itself
page.py     report.html of a run
evaluated.py  what an evaluation draws, and what its model costs
comparison.py  a page for several runs
"""

from penstock.report.comparison import write_comparison
from penstock.report.page import write_report
from penstock.report.sheets import predictions_sheet, records_sheet, samples_sheet

__all__ = ["predictions_sheet", "records_sheet", "samples_sheet", "write_comparison", "write_report"]

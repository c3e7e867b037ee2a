"""How a round of exact EM goes through a cluster."""

import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(7.2, 3.2))
axes.axis("off")
box = {"boxstyle": "round,pad=0.5", "facecolor": "#dbe7f5", "edgecolor": "#3b6ea5"}
data = {"boxstyle": "round,pad=0.4", "facecolor": "#eeeeee", "edgecolor": "#999999"}
axes.text(0.5, 0.9, "your program: the M-step", ha="center", bbox=box)
places = [0.1, 0.37, 0.63, 0.9]
for n, x in enumerate(places):
    axes.text(x, 0.35, f"worker {n + 1}\nE-step", ha="center", bbox=box)
    axes.text(x, 0.03, f"data {n + 1}", ha="center", color="#555555", bbox=data)
    arrow = {"arrowstyle": "<->", "color": "#555555"}
    axes.annotate("", (0.5 + 0.3 * (x - 0.5), 0.86), (x, 0.5), arrowprops=arrow)
    axes.plot([x, x], [0.1, 0.31], color="#999999", linewidth=1.0, zorder=0)
axes.text(0.02, 0.72, "the model goes down,\nsums come back", color="#555555")
axes.text(0.98, 0.72, "a few kilobytes each,\nfor any number of rows", ha="right", color="#555555")
axes.set(xlim=(0, 1), ylim=(-0.05, 1))

"""How often our rule and the rules of others are wrong, on the same simulated and real sweeps.

    python -m benchmarks.verdicts [--quick] [--out DIR] [--real DIR]

See docs/verdicts.md. Everything is drawn from fixed seeds.
"""

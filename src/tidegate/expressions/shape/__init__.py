"""Shapes of formulas: rising, falling or quasiconvex in an input, proved over the domains of all inputs."""

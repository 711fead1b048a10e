"""What benchmarks are made of: data, runs, figures and pictures."""

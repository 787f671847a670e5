"""What spark-submit runs: argv in, one answer out."""

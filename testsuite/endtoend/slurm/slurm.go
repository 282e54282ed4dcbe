// Package slurm tells the stories with trials on a real Slurm, run by the platform
// that its users take as it is: examples/platforms/slurm.
package slurm

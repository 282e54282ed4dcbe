package kube

// mpiJob is the training-operator's MPIJob: the command runs in the launcher, and
// begins processes in the workers by mpirun. The workers wait for more until they are
// ended, which nothing but the launcher's end is a reason for.
var mpiJob = func() jobKind {
	kind := ofTrainingOperator("MPIJob", "mpi", "mpi", "Launcher", "Worker")
	kind.ordered = true
	spec := kind.spec
	kind.spec = func(section Section, templates []template) object {
		made := spec(section, templates)
		merge(made, object{"runPolicy": object{"cleanPodPolicy": "Running"}})
		return made
	}
	return kind
}()

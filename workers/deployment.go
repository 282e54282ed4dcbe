package workers

import (
	"context"
	"strings"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/perennial-ml/perennial/workflows"
)

// deploymentName names the Worker Deployment of the queues of a record, in each share its own:
// their workers come to a new version one after the other. Temporal wants neither
// a dot nor a colon in it.
func deploymentName(queues workflows.Queues) string {
	return strings.TrimSuffix("perennial-"+queues.Record+"-"+queues.Share, "-")
}

// deploy makes this build the current version of the record's Worker Deployment
// and returns what its workers must carry. Workflows go on under whatever is
// current: replay tests hold that they can. Where Temporal knows no deployments,
// or allows no more of them, workers go on without.
func (w *Workers) deploy(ctx context.Context) worker.DeploymentOptions {
	name, build := deploymentName(w.queues), w.options.BuildID
	if build == "" {
		return worker.DeploymentOptions{}
	}
	if err := makeCurrent(ctx, w.options.Client, name, build); err != nil {
		w.options.Logger.Warn("no Worker Deployment; working without", "deployment", name, "error", err)
		return worker.DeploymentOptions{}
	}
	return worker.DeploymentOptions{
		UseVersioning:             true,
		Version:                   worker.WorkerDeploymentVersion{DeploymentName: name, BuildID: build},
		DefaultVersioningBehavior: workflow.VersioningBehaviorAutoUpgrade,
	}
}

func makeCurrent(ctx context.Context, temporal client.Client, name, build string) error {
	handle := temporal.WorkerDeploymentClient().GetHandle(name)
	described, err := handle.Describe(ctx, client.WorkerDeploymentDescribeOptions{})
	if current := described.Info.RoutingConfig.CurrentVersion; err == nil && current != nil && current.BuildID == build {
		return nil
	}
	// The workers of this version poll a moment later, and those of one machine
	// need not serve every platform that an earlier version did.
	_, err = handle.SetCurrentVersion(ctx, client.WorkerDeploymentSetCurrentVersionOptions{
		BuildID: build, AllowNoPollers: true, IgnoreMissingTaskQueues: true,
	})
	return err
}

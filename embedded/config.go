package embedded

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

const (
	loopback    = "127.0.0.1"
	clusterName = "active"
	frontend    = string(primitives.FrontendService)
)

// services are what workflows need. The internal frontend serves the server's own
// calls, which have no token. Temporal's own workers, for schedules, batches and
// deployments, are left out: nobody uses them here, and their polls were a third of
// what a host costs that has nothing to do.
var services = temporalServices()

func temporalServices() []string {
	return []string{
		frontend,
		string(primitives.InternalFrontendService),
		string(primitives.HistoryService),
		string(primitives.MatchingService),
	}
}

// ports maps each service to its loopback port.
type ports map[string]int

// freePorts asks the operating system for one port per service. They are held
// together, so that they differ, and given up for Temporal to bind.
func freePorts() (ports, error) {
	free := ports{}
	for _, service := range services {
		listener, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
		if err != nil {
			return nil, fmt.Errorf("no free loopback port: %w", err)
		}
		defer listener.Close()
		free[service] = listener.Addr().(*net.TCPAddr).Port
	}
	return free, nil
}

func (p ports) address(service string) string {
	return net.JoinHostPort(loopback, strconv.Itoa(p[service]))
}

// hosts is the static membership: ringpop costs 50 seconds after a kill. The server
// wants to be told of workers too; nobody asks where they are.
func (p ports) hosts() map[primitives.ServiceName]static.Hosts {
	hosts := map[primitives.ServiceName]static.Hosts{primitives.WorkerService: static.SingleLocalHost(p.address(frontend))}
	for service := range p {
		hosts[primitives.ServiceName(service)] = static.SingleLocalHost(p.address(service))
	}
	return hosts
}

func serverConfig(directory string, p ports) *config.Config {
	return &config.Config{
		Global:              config.Global{Membership: config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: loopback}},
		Persistence:         persistence(directory),
		ClusterMetadata:     clusterMetadata(p),
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services:            serviceConfigs(p),
		Archival: config.Archival{
			History:    config.HistoryArchival{State: config.ArchivalDisabled},
			Visibility: config.VisibilityArchival{State: config.ArchivalDisabled},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: config.ArchivalDisabled},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: config.ArchivalDisabled},
		}},
	}
}

func serviceConfigs(p ports) map[string]config.Service {
	configs := map[string]config.Service{}
	for service, port := range p {
		configs[service] = config.Service{RPC: config.RPC{GRPCPort: port, BindOnIP: loopback}}
	}
	return configs
}

func clusterMetadata(p ports) *cluster.Config {
	return &cluster.Config{
		FailoverVersionIncrement: 10,
		MasterClusterName:        clusterName,
		CurrentClusterName:       clusterName,
		ClusterInformation: map[string]cluster.ClusterInformation{
			clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: p.address(frontend)},
		},
	}
}

func persistence(directory string) config.Persistence {
	return config.Persistence{
		DefaultStore:     sqlite.PluginName,
		VisibilityStore:  sqlite.PluginName,
		NumHistoryShards: 1,
		DataStores:       map[string]config.DataStore{sqlite.PluginName: {SQL: sqlConfig(directory)}},
	}
}

// sqlConfig leaves MaxConns at Temporal's default of one connection: four gave
// thousands of SQLITE_BUSY and half the throughput.
func sqlConfig(directory string) *config.SQL {
	return &config.SQL{
		PluginName:   sqlite.PluginName,
		DatabaseName: uriPath(databasePath(directory)),
		ConnectAttributes: map[string]string{
			"mode":         "rw",
			"journal_mode": "wal",
			"synchronous":  "normal",
			"busy_timeout": "5000",
		},
	}
}

// uriPath escapes what SQLite would read as part of a URI, such as ? and %.
func uriPath(path string) string { return (&url.URL{Path: path}).EscapedPath() }

func databasePath(directory string) string { return filepath.Join(directory, "temporal.db") }

// tuning is what cuts the engine's latency five to ten times on one machine.
// Nothing depends on it for correctness: clusters run with Temporal's defaults.
func tuning() map[dynamicconfig.Key]any {
	const pollsPerSecond, requestsPerSecond, persistencePerSecond = 200, 10_000, 45_000
	const tickOff = time.Second
	return map[dynamicconfig.Key]any{
		dynamicconfig.TransferProcessorMaxPollRPS.Key():   pollsPerSecond,
		dynamicconfig.TimerProcessorMaxPollRPS.Key():      pollsPerSecond,
		dynamicconfig.VisibilityProcessorMaxPollRPS.Key(): pollsPerSecond,
		dynamicconfig.OutboundProcessorMaxPollRPS.Key():   pollsPerSecond,
		dynamicconfig.TimerProcessorMaxTimeShift.Key():    50 * time.Millisecond,

		// What is done is done again by the next server if it was not ticked off, and
		// until then every look at a queue goes through all of it.
		// Visibility's is of no concern to work, and the outbound queue is empty.
		dynamicconfig.TransferProcessorUpdateAckInterval.Key():   tickOff,
		dynamicconfig.TimerProcessorUpdateAckInterval.Key():      tickOff,
		dynamicconfig.VisibilityProcessorUpdateAckInterval.Key(): 10 * tickOff,

		// With one partition of each task queue there are no others to be told how
		// long it is. Never would be 0, which has the server's loop spin for ever over
		// a queue that was unloaded.
		dynamicconfig.MatchingEphemeralDataUpdateInterval.Key(): time.Minute,

		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,

		// There is no worker of Temporal's own that a parent's end could be left to.
		dynamicconfig.EnableParentClosePolicyWorker.Key(): false,

		// All that looks regularly costs a host that has nothing to do; the only namespace
		// of ours is there before the services start.
		dynamicconfig.EnableReplicationStream.Key():                             false, // to other clusters
		dynamicconfig.ReplicationProcessorSchedulerWorkerCount.Key():            1,
		dynamicconfig.ReplicationLowPriorityProcessorSchedulerWorkerCount.Key(): 1,
		dynamicconfig.NamespaceCacheRefreshInterval.Key():                       20 * time.Second,
		dynamicconfig.MatchingNexusEndpointsRefreshInterval.Key():               time.Minute,
		dynamicconfig.MatchingBacklogMetricsEmitInterval.Key():                  time.Duration(0), // nobody reads them
		dynamicconfig.MatchingPartitionScaleManager.Key():                       map[string]any{"BackgroundInterval": "10m"},

		// A cancelled activity hears of it at once only with both of these.
		dynamicconfig.EnableCancelActivityWorkerCommand.Key(): true,
		dynamicconfig.WorkerCommandsEnabled.Key():             true,

		dynamicconfig.FrontendMaxNamespaceRPSPerInstance.Key():                  requestsPerSecond,
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key():        requestsPerSecond,
		dynamicconfig.FrontendMaxConcurrentLongRunningRequestsPerInstance.Key(): requestsPerSecond,
		dynamicconfig.FrontendPersistenceMaxQPS.Key():                           persistencePerSecond,
		dynamicconfig.HistoryPersistenceMaxQPS.Key():                            persistencePerSecond,
		dynamicconfig.MatchingPersistenceMaxQPS.Key():                           persistencePerSecond,
		dynamicconfig.WorkerPersistenceMaxQPS.Key():                             persistencePerSecond,

		dynamicconfig.ForceSearchAttributesCacheRefreshOnRead.Key(): true,
		// Nothing of ours is stored outside history, and counting what is races,
		// in server 1.32, with readers of the same events.
		dynamicconfig.ExternalPayloadsEnabled.Key(): false,
	}
}

const frontendHealth = "temporal.api.workflowservice.v1.WorkflowService"

// waitUntilServing returns once the frontend calls itself healthy, which it
// does a moment after its services started.
func waitUntilServing(ctx context.Context, address string) error {
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("temporal frontend: %w", err)
	}
	defer connection.Close()
	health := grpc_health_v1.NewHealthClient(connection)
	for {
		answer, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: frontendHealth}, grpc.WaitForReady(true))
		if err == nil && answer.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("temporal frontend does not answer on %s: %w", address, context.Cause(ctx))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

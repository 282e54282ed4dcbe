// Temporal is the stock Temporal server on PostgreSQL, made from its Go modules:
// a server that is not ours, for tests. Nothing in it is tuned.
package main

import (
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"
)

const (
	loopback = "127.0.0.1"
	// shards is what Temporal's own docker-compose uses.
	shards = 4
)

// services are in the order of their ports on the command line.
var services = []primitives.ServiceName{
	primitives.FrontendService, primitives.HistoryService, primitives.MatchingService, primitives.WorkerService,
}

func main() {
	list := flag.String("ports", "7233,7234,7235,7239", "loopback ports of frontend, history, matching and worker")
	database := flag.String("postgres", "127.0.0.1:5432", "PostgreSQL, where user postgres may do all without a password")
	flag.Parse()
	if err := run(strings.Split(*list, ","), *database); err != nil {
		slog.Error("the Temporal server ends", "error", err)
		os.Exit(1)
	}
}

func run(list []string, database string) error {
	ports, err := parse(list)
	if err != nil {
		return err
	}
	logger := log.NewZapLogger(log.BuildZapLogger(log.Config{Stdout: true, Level: "error"}))
	if err := prepare(database, logger); err != nil {
		return err
	}
	names := make([]string, len(services))
	for i, service := range services {
		names[i] = string(service)
	}
	server, err := temporal.NewServer(
		temporal.WithConfig(serverConfig(ports, database)),
		temporal.ForServices(names),
		// Ringpop would take 50 seconds to forget a server that was killed.
		temporal.WithStaticHosts(hosts(ports)),
		temporal.WithLogger(logger),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
	)
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	<-ended
	return server.Stop()
}

// parse reads one port for each service.
func parse(list []string) ([]int, error) {
	if len(list) != len(services) {
		return nil, fmt.Errorf("%d ports are needed", len(services))
	}
	ports := make([]int, len(list))
	for i, text := range list {
		var err error
		if ports[i], err = strconv.Atoi(text); err != nil {
			return nil, err
		}
	}
	return ports, nil
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }

func hosts(ports []int) map[primitives.ServiceName]static.Hosts {
	hosts := map[primitives.ServiceName]static.Hosts{}
	for i, service := range services {
		hosts[service] = static.SingleLocalHost(address(ports[i]))
	}
	return hosts
}

func serverConfig(ports []int, database string) *config.Config {
	configs := map[string]config.Service{}
	for i, service := range services {
		configs[string(service)] = config.Service{RPC: config.RPC{GRPCPort: ports[i], BindOnIP: loopback}}
	}
	return &config.Config{
		Global: config.Global{Membership: config.Membership{BroadcastAddress: loopback}},
		Persistence: config.Persistence{
			DefaultStore: mainDatabase, VisibilityStore: visibilityDatabase, NumHistoryShards: shards,
			DataStores: map[string]config.DataStore{
				mainDatabase:       {SQL: sqlConfig(database, mainDatabase)},
				visibilityDatabase: {SQL: sqlConfig(database, visibilityDatabase)},
			},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10, MasterClusterName: "active", CurrentClusterName: "active",
			ClusterInformation: map[string]cluster.ClusterInformation{
				"active": {Enabled: true, InitialFailoverVersion: 1, RPCAddress: address(ports[0])},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services:            configs,
		Archival: config.Archival{
			History:    config.HistoryArchival{State: config.ArchivalDisabled},
			Visibility: config.VisibilityArchival{State: config.ArchivalDisabled},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: config.ArchivalDisabled},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: config.ArchivalDisabled},
		}},
		PublicClient: config.PublicClient{HostPort: address(ports[0])},
	}
}

func sqlConfig(address, name string) *config.SQL {
	return &config.SQL{
		PluginName: postgresql.PluginNamePGX, DatabaseName: name, ConnectAddr: address, ConnectProtocol: "tcp",
		User: "postgres", MaxConns: 20, MaxIdleConns: 20,
	}
}

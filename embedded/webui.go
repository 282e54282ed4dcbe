package embedded

import (
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/temporalio/ui-server/v2/server/api"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	"github.com/temporalio/ui-server/v2/server/headers"
	"github.com/temporalio/ui-server/v2/server/route"
	"github.com/temporalio/ui-server/v2/ui"
)

// webUI serves Temporal's Web UI behind a door.
//
// The routes of ui-server are mounted on a server of ours instead of starting
// its own: that one would be a second, open port, and it ends the process when
// it cannot bind.
type webUI struct {
	address string
	server  *http.Server
}

func startWebUI(frontend string, options Options) (*webUI, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return nil, fmt.Errorf("web ui: %w", err)
	}
	address := "http://" + listener.Addr().String()
	handler, err := webUIHandler(webUIConfig(frontend, address, options))
	if err != nil {
		listener.Close()
		return nil, fmt.Errorf("web ui: %w", err)
	}
	inside := http.NewServeMux()
	inside.Handle("/", handler)
	if options.Codec != nil {
		inside.Handle("/codec/", http.StripPrefix("/codec", options.Codec))
	}
	server := &http.Server{
		Handler:           newDoor(options.Token, listener.Addr().(*net.TCPAddr).Port, inside),
		ReadHeaderTimeout: 10 * time.Second,
	}
	go server.Serve(listener) //nolint:errcheck // it always ends with ErrServerClosed
	return &webUI{address: address, server: server}, nil
}

func (w *webUI) stop() { w.server.Close() }

func webUIConfig(frontend, address string, options Options) *uiconfig.Config {
	settings := &uiconfig.Config{
		TemporalGRPCAddress: frontend,
		EnableUI:            true,
		DefaultNamespace:    options.Namespace,
		DisableNewsFetch:    true,
		HideLogs:            true,
	}
	if options.Codec != nil {
		settings.Codec = uiconfig.Codec{Endpoint: address + "/codec", IncludeCredentials: true}
	}
	return settings
}

// webUIHandler mounts ui-server's routes. Its CORS and CSRF layers are left out:
// the door refuses requests of other origins.
func webUIHandler(settings *uiconfig.Config) (http.Handler, error) {
	provider, err := uiconfig.NewConfigProviderWithRefresh(settings)
	if err != nil {
		return nil, err
	}
	assets, err := ui.Assets()
	if err != nil {
		return nil, err
	}
	local, err := fs.Sub(assets, "local")
	if err != nil {
		return nil, err
	}
	e := echo.New()
	e.Use(middleware.Recover(), middleware.Gzip(), middleware.Secure())
	forward := []api.Middleware{headers.WithForwardHeaders([]string{"Caller-Type"})}
	if err := route.SetAPIRoutes(e, provider, forward); err != nil {
		return nil, err
	}
	if err := route.SetUIRoutes(e, "", local, provider); err != nil {
		return nil, err
	}
	route.SetRenderRoute(e, "/")
	return e, nil
}

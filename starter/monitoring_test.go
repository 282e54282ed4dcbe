package main

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/record"
	"github.com/perennial-ml/perennial/starter/host"
)

func TestAHostIsReadyOnceItsWorkersHaveBegunAndAsLongAsItsRecordAnswers(t *testing.T) {
	store, err := record.Open(filepath.Join(t.TempDir(), "record.sqlite"))
	require.NoError(t, err)
	var m monitoring
	require.ErrorContains(t, m.ready(context.Background(), store), "Temporal")
	var away error
	m.temporal.Store(new(func(context.Context) error { return away }))
	require.NoError(t, m.ready(context.Background(), store))
	away = errors.New("10.1.2.3:7233: connection refused")
	require.EqualError(t, m.ready(context.Background(), store), "Temporal does not answer; the host's log says why")
	away = nil
	require.NoError(t, store.Close())
	require.Error(t, m.ready(context.Background(), store))
}

func TestAnAddressForMetricsThatIsTakenIsNamed(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	dir, err := host.Open(t.TempDir())
	require.NoError(t, err)
	var m monitoring
	require.NoError(t, m.start("", dir, nil), "none is wanted")
	require.ErrorContains(t, m.start(taken.Addr().String(), dir, nil), "$PERENNIAL_METRICS")
	m.stop()
}

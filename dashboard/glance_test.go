package dashboard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perennial-ml/perennial/dashboard/views"
)

func TestManyPagesAskForGPUsOnceInAFewSeconds(t *testing.T) {
	var g glance
	looks := 0
	look := func() (views.GPUs, error) {
		looks++
		return views.GPUs{}, nil
	}
	begun := time.Now()
	for range 20 { // as many as wait while the first one looks
		g.at(begun, look)
	}
	require.Equal(t, 1, looks)
	g.at(g.end.Add(glanceKept), look)
	require.Equal(t, 1, looks)
	g.at(g.end.Add(glanceKept+time.Second), look)
	require.Equal(t, 2, looks)
}

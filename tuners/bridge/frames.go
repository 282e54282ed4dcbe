package bridge

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// frame is one command of NNI's protocol: a code of two letters and its content.
type frame struct {
	Code    string `json:"type"`
	Content string `json:"content"`
}

// Codes of NNI's protocol: the first group goes to the dispatcher, the second
// comes from it.
const (
	codeInitialize = "IN"
	codeRequest    = "GE"
	codeMetric     = "ME"
	codeSpace      = "SS"
	codeImport     = "FD"
	codeEnd        = "EN"
	codeTerminate  = "TE"

	codeInitialized = "ID"
	codeTrial       = "TR"
	codeNoMore      = "NO"
	codeKill        = "KI"
	codeError       = "ER"
)

// channel carries frames. send and receive may be called at the same time.
type channel interface {
	send(frame) error
	receive() (frame, error)
	io.Closer
}

// pipes is the framing up to NNI 2.7: code, length in 14 digits, content.
type pipes struct {
	to   io.WriteCloser
	from io.ReadCloser
	read *bufio.Reader
}

func newPipes(to io.WriteCloser, from io.ReadCloser) *pipes {
	return &pipes{to, from, bufio.NewReader(from)}
}

func (p *pipes) send(f frame) error {
	_, err := fmt.Fprintf(p.to, "%2s%014d%s", f.Code, len(f.Content), f.Content)
	return err
}

// maxContent bounds what one frame may hold.
const maxContent = 256 << 20

func (p *pipes) receive() (frame, error) {
	header := make([]byte, 16)
	if _, err := io.ReadFull(p.read, header); err != nil {
		return frame{}, err
	}
	length, err := strconv.ParseUint(string(header[2:]), 10, 63)
	if err != nil || length > maxContent {
		return frame{}, nonsense(string(header))
	}
	content := make([]byte, length)
	_, err = io.ReadFull(p.read, content)
	return frame{string(header[:2]), string(content)}, err
}

func (p *pipes) Close() error { return errors.Join(p.to.Close(), p.from.Close()) }

// errNonsense is what a process says that is no word of its protocol.
var errNonsense = errors.New("it said what is no answer")

func nonsense(what string) error { return fmt.Errorf("%w: %q", errNonsense, cut(what)) }

// socket is the framing from NNI 2.8 on: text messages, of a code with its content
// behind it up to 2.10, of a JSON object in 3.0.
type socket struct {
	connection *websocket.Conn
	objects    bool
	writing    sync.Mutex // the last word may come while another is said
}

func (s *socket) send(f frame) error {
	message := []byte(f.Code + f.Content)
	if s.objects {
		var err error
		if message, err = json.Marshal(f); err != nil {
			return err
		}
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.connection.WriteMessage(websocket.TextMessage, message)
}

func (s *socket) receive() (frame, error) {
	_, message, err := s.connection.ReadMessage()
	switch {
	case err != nil:
		return frame{}, err
	case s.objects:
		var f frame
		if json.Unmarshal(message, &f) != nil {
			return frame{}, nonsense(string(message))
		}
		return f, nil
	case len(message) < 2:
		return frame{}, nonsense(string(message))
	}
	return frame{string(message[:2]), string(message[2:])}, nil
}

func (s *socket) Close() error { return s.connection.Close() }

// door is a websocket server on a loopback port for one client, who must know its
// path: anybody on this machine can reach the port.
type door struct {
	url      string
	server   *http.Server
	arrivals chan *websocket.Conn
}

func openDoor() (*door, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the dispatcher: %w", err)
	}
	path := "/" + rand.Text() + "/tuner"
	d := &door{url: "ws://" + listener.Addr().String() + path, arrivals: make(chan *websocket.Conn, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc(path, d.admit)
	d.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go d.server.Serve(listener)
	return d, nil
}

// admit takes a connection; a second one would be of a dispatcher that lost its
// first, and is about to be replaced.
func (d *door) admit(w http.ResponseWriter, r *http.Request) {
	upgrader := websocket.Upgrader{CheckOrigin: func(r *http.Request) bool { return r.Header.Get("Origin") == "" }}
	connection, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // the client has been told
	}
	select {
	case d.arrivals <- connection:
	default:
		connection.Close()
	}
}

func (d *door) Close() error { return d.server.Close() }

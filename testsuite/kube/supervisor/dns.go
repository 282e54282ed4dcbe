package supervisor

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/perennial-ml/perennial/testsuite/kube"
)

// domain is that of the names of a cluster's services.
const domain = "svc.cluster.local."

// startDNS answers the pods' questions for names of services without an address, as a
// cluster's DNS would; it knows no other names.
func (s *Supervisor) startDNS() error {
	connection, err := net.ListenPacket("udp4", s.Address(2)+":53")
	if err != nil {
		return err
	}
	go s.answerAll(connection)
	return nil
}

func (s *Supervisor) answerAll(connection net.PacketConn) {
	for {
		question := make([]byte, 1500)
		n, from, err := connection.ReadFrom(question)
		if err != nil {
			return // with the process
		}
		go func() {
			if answer, err := s.answer(question[:n]); err == nil {
				_, _ = connection.WriteTo(answer, from) // who does not hear it asks again
			}
		}()
	}
}

// answer answers one question.
func (s *Supervisor) answer(message []byte) ([]byte, error) {
	var asked dnsmessage.Message
	if err := asked.Unpack(message); err != nil {
		return nil, err
	}
	said := dnsmessage.Message{Header: dnsmessage.Header{ID: asked.ID, Response: true, Authoritative: true, RecursionDesired: asked.RecursionDesired, RecursionAvailable: true},
		Questions: asked.Questions}
	for _, question := range asked.Questions {
		addresses := s.lookUp(question.Name.String())
		if len(addresses) == 0 {
			said.RCode = dnsmessage.RCodeNameError
		}
		for _, address := range addresses {
			if question.Type == dnsmessage.TypeA { // nobody has another
				said.Answers = append(said.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: 1},
					Body: &dnsmessage.AResource{A: address.As4()}})
			}
		}
	}
	return said.Pack()
}

// lookUp finds the addresses of SERVICE.NAMESPACE, or of POD.SERVICE.NAMESPACE, of the domain.
func (s *Supervisor) lookUp(name string) (found []netip.Addr) {
	within, ours := strings.CutSuffix(strings.ToLower(name), "."+domain)
	words := strings.Split(within, ".")
	if !ours || len(words) < 2 || len(words) > 3 {
		return nil
	}
	pod, service, namespace := words[0], words[len(words)-2], words[len(words)-1]
	for _, endpoint := range s.endpoints(namespace, service) {
		hostname, _ := kube.Field(endpoint, "hostname").(string)
		if len(words) == 3 && hostname != pod {
			continue
		}
		text, _ := kube.Field(endpoint, "addresses", 0).(string)
		if address, err := netip.ParseAddr(text); err == nil && address.Is4() {
			found = append(found, address)
		}
	}
	return found
}

// endpoints are the pods of a service, as the cluster's own controller lists them.
func (s *Supervisor) endpoints(namespace, service string) (all []any) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	slices, err := s.api.Get(ctx, "/apis/discovery.k8s.io/v1/namespaces/"+namespace+"/endpointslices?labelSelector=kubernetes.io/service-name="+service)
	if err != nil {
		return nil
	}
	items, _ := slices["items"].([]any)
	for _, slice := range items {
		some, _ := kube.Field(slice, "endpoints").([]any)
		all = append(all, some...)
	}
	return all
}

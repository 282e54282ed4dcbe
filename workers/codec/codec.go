// Package codec encrypts what Temporal keeps: the payloads of workflows and
// activities, and the messages of failures. It is defence in depth, since secrets
// do not enter workflows at all.
//
// A payload is marshalled whole and sealed with AES-256-GCM; the id of the key
// stands in its metadata and is authenticated with it. What is not encrypted
// passes through when it is decoded, so that signals from the Web UI, the
// temporal command line and clients without keys are understood.
package codec

import (
	"fmt"
	"net/http"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"
)

// The metadata of an encrypted payload, as Temporal's own samples name it.
const (
	encoding   = "binary/encrypted"
	metadataID = "encryption-key-id"
)

var _ converter.PayloadCodec = (*Ring)(nil)

// Protect has a client encrypt what it sends and decrypt what it gets.
func (r *Ring) Protect(options client.Options) client.Options {
	options.DataConverter = converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), r)
	options.FailureConverter = temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{
		DataConverter:          options.DataConverter,
		EncodeCommonAttributes: true,
	})
	return options
}

// Handler serves /encode and /decode to whoever may read payloads. It knows no
// callers: a door must stand before it.
func (r *Ring) Handler() http.Handler { return converter.NewPayloadCodecHTTPHandler(r) }

// Encode implements converter.PayloadCodec.
func (r *Ring) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	id, key, err := r.current()
	if err != nil {
		return nil, err
	}
	sealed := make([]*commonpb.Payload, len(payloads))
	for i, payload := range payloads {
		plain, err := proto.Marshal(payload)
		if err != nil {
			return nil, fmt.Errorf("encrypt a payload: %w", err)
		}
		sealed[i] = &commonpb.Payload{
			Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encoding), metadataID: []byte(id)},
			Data:     key.Seal(nil, nil, plain, []byte(id)),
		}
	}
	return sealed, nil
}

// Decode implements converter.PayloadCodec. A payload whose key is not there is a
// MissingError.
func (r *Ring) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	opened := make([]*commonpb.Payload, len(payloads))
	for i, payload := range payloads {
		if string(payload.GetMetadata()[converter.MetadataEncoding]) != encoding {
			opened[i] = payload
			continue
		}
		var err error
		if opened[i], err = r.open(payload); err != nil {
			return nil, err
		}
	}
	return opened, nil
}

func (r *Ring) open(payload *commonpb.Payload) (*commonpb.Payload, error) {
	id := string(payload.GetMetadata()[metadataID])
	key, err := r.named(id)
	if err != nil {
		return nil, err
	}
	plain, err := key.Open(nil, nil, payload.GetData(), []byte(id))
	if err != nil {
		return nil, fmt.Errorf("a payload does not open with its key %s: it was damaged, or that file is another key's", id)
	}
	opened := &commonpb.Payload{}
	if err := proto.Unmarshal(plain, opened); err != nil {
		return nil, fmt.Errorf("a decrypted payload is damaged: %w", err)
	}
	return opened, nil
}

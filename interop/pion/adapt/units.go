package main

import (
	"bytes"
	"errors"
	"io"
	"os"

	"github.com/pion/webrtc/v4/pkg/media/h264reader"
	"github.com/pion/webrtc/v4/pkg/media/oggreader"
)

// Types of NAL units (H.264 table 7-1) and of packets (RFC 6184 table 1).
const (
	nalIDR = 5
	nalSPS = 7
	stapA  = 24
	fuA    = 28
)

// unit is an access unit, in Annex B.
type unit struct {
	bytes []byte
	isKey bool
}

// accessUnits reads a file whose access units begin with delimiters; and the sequence parameter set
// of the first one.
func accessUnits(path string) (units []unit, sps []byte) {
	file, err := os.ReadFile(path)
	check(err)
	reader, err := h264reader.NewReader(bytes.NewReader(file))
	check(err)
	for {
		nal, err := reader.NextNAL()
		if errors.Is(err, io.EOF) {
			return units, sps
		}
		check(err)
		if nal.UnitType == h264reader.NalUnitTypeAUD {
			units = append(units, unit{})
			continue
		}
		if len(units) == 0 {
			check(errors.New(path + " does not begin with an access unit delimiter"))
		}
		last := &units[len(units)-1]
		last.bytes = append(append(last.bytes, 0, 0, 0, 1), nal.Data...)
		switch nal.UnitType {
		case h264reader.NalUnitTypeCodedSliceIdr:
			last.isKey = true
		case h264reader.NalUnitTypeSPS:
			if sps == nil {
				sps = append([]byte{}, nal.Data...)
			}
		}
	}
}

// opusPackets reads a file with a packet a page.
func opusPackets(path string) (packets [][]byte) {
	file, err := os.ReadFile(path)
	check(err)
	reader, _, err := oggreader.NewWith(bytes.NewReader(file))
	check(err)
	for {
		page, header, err := reader.ParseNextPage()
		if errors.Is(err, io.EOF) {
			return packets
		}
		check(err)
		if header.GranulePosition != 0 && !bytes.HasPrefix(page, []byte("Opus")) {
			packets = append(packets, page)
		}
	}
}

// nalUnits calls `each` with what a packet of RTP has of NAL units: whole ones, or the beginning of
// one in fragments without its first byte's type put together.
func nalUnits(payload []byte, each func(kind byte, whole []byte)) {
	if len(payload) == 0 {
		return
	}
	switch kind := payload[0] & 0x1f; {
	case kind == stapA:
		for rest := payload[1:]; len(rest) > 2; {
			length := int(rest[0])<<8 | int(rest[1])
			if rest = rest[2:]; length == 0 || length > len(rest) {
				return
			}
			each(rest[0]&0x1f, rest[:length])
			rest = rest[length:]
		}
	case kind == fuA && len(payload) > 1:
		if payload[1]&0x80 != 0 {
			each(payload[1]&0x1f, nil)
		}
	default:
		each(kind, payload)
	}
}

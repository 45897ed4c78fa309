package main

import (
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pion/interceptor"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/pion/rtp/codecs"
	"github.com/pion/sdp/v3"
	"github.com/pion/webrtc/v4"
	"github.com/pion/webrtc/v4/pkg/media"
)

// RIDs of the layers, lowest first.
var rids = []string{"q", "h", "f"}

const packetBytes = 1180

// layer is one encoding of the picture.
type layer struct {
	rid        string
	track      *webrtc.TrackLocalStaticRTP
	packetizer rtp.Packetizer
	units      []unit
	next       int
	// A key frame is asked for.
	asked atomic.Bool
	keys  int
	pli   atomic.Int64
}

// send sends its next picture: the next key frame of the file if one is asked for.
func (one *layer) send(samples uint32, extensions map[uint8][]byte) {
	if one.asked.Swap(false) {
		for !one.units[one.next].isKey {
			one.next = (one.next + 1) % len(one.units)
		}
	}
	now := one.units[one.next]
	one.next = (one.next + 1) % len(one.units)
	if now.isKey {
		one.keys++
	}
	for _, packet := range one.packetizer.Packetize(now.bytes, samples) {
		for id, value := range extensions {
			check(packet.SetExtension(id, value))
		}
		check(one.track.WriteRTP(packet))
	}
}

// listen notes requests for key frames.
func (one *layer) listen(sender *webrtc.RTPSender) {
	for {
		var packets []rtcp.Packet
		var err error
		if one.rid == "" {
			packets, _, err = sender.ReadRTCP()
		} else {
			packets, _, err = sender.ReadSimulcastRTCP(one.rid)
		}
		if err != nil {
			return
		}
		for _, packet := range packets {
			switch packet.(type) {
			case *rtcp.PictureLossIndication, *rtcp.FullIntraRequest:
				one.pli.Add(1)
				one.asked.Store(true)
			}
		}
	}
}

func newLayer(rid string) *layer {
	var options []func(*webrtc.TrackLocalStaticRTP)
	if rid != "" {
		options = append(options, webrtc.WithRTPStreamID(rid))
	}
	track, err := webrtc.NewTrackLocalStaticRTP(videoCodec.RTPCodecCapability, "video", "pion", options...)
	check(err)
	packetizer := rtp.NewPacketizer(packetBytes, 0, 0, &codecs.H264Payloader{}, rtp.NewRandomSequencer(), 90000)
	return &layer{rid: rid, track: track, packetizer: packetizer}
}

// publish sends the files, all layers' pictures at the same time, until standard input ends.
func publish(target string) {
	peer := newPeer(func(engine *webrtc.MediaEngine, registry *interceptor.Registry) {
		check(webrtc.RegisterDefaultInterceptors(engine, registry))
		check(webrtc.ConfigureTWCCHeaderExtensionSender(engine, registry))
	})
	files := strings.Split(*layers, ",")
	var encodings []*layer
	for at, file := range files {
		rid := ""
		if len(files) > 1 {
			rid = rids[at]
		}
		one := newLayer(rid)
		one.units, _ = accessUnits(file)
		encodings = append(encodings, one)
	}
	sendOnly := webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionSendonly}
	transceiver, err := peer.AddTransceiverFromTrack(encodings[0].track, sendOnly)
	check(err)
	sender := transceiver.Sender()
	for _, one := range encodings[1:] {
		check(sender.AddEncoding(one.track))
	}
	audioTrack, err := webrtc.NewTrackLocalStaticSample(audioCodec.RTPCodecCapability, "audio", "pion")
	check(err)
	_, err = peer.AddTransceiverFromTrack(audioTrack, sendOnly)
	check(err)
	session := connect(peer, target)

	ids := map[string]uint8{}
	for _, extension := range sender.GetParameters().HeaderExtensions {
		ids[extension.URI] = uint8(extension.ID)
	}
	for _, one := range encodings {
		go one.listen(sender)
	}
	go sendAudio(audioTrack)
	go func() {
		interval := time.Duration(float64(time.Second) / *rate)
		for range time.NewTicker(interval).C {
			for _, one := range encodings {
				extensions := map[uint8][]byte{}
				if one.rid != "" {
					extensions[ids[sdp.SDESMidURI]] = []byte(transceiver.Mid())
					extensions[ids[sdp.SDESRTPStreamIDURI]] = []byte(one.rid)
				}
				one.send(uint32(90000 / *rate), extensions)
			}
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
	var keys, plis []int
	for _, one := range encodings {
		keys, plis = append(keys, one.keys), append(plis, int(one.pli.Load()))
	}
	say("done", facts{"keys": keys, "pli": plis})
	end(peer, session)
}

func sendAudio(track *webrtc.TrackLocalStaticSample) {
	const interval = 20 * time.Millisecond
	packets := opusPackets(*audio)
	ticker := time.NewTicker(interval)
	for at := 0; ; at++ {
		<-ticker.C
		check(track.WriteSample(media.Sample{Data: packets[at%len(packets)], Duration: interval}))
	}
}

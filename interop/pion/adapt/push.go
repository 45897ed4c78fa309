package main

import (
	"crypto/rand"
	"io"
	"os"
	"time"

	"github.com/pion/interceptor"
	"github.com/pion/interceptor/pkg/cc"
	"github.com/pion/interceptor/pkg/gcc"
	"github.com/pion/webrtc/v4"
)

// startRate is where Pion's congestion control begins, bit/s, as Chromium's does.
const startRate = 300_000

// What is no video: audio with its headers, and those of video, one packet in a picture.
const (
	audioRate   = 52_000
	headerBytes = 70
)

// push publishes pictures as large as the congestion control allows, until standard input ends.
// What is in them has headers of H.264 and is random otherwise.
func push(target string) {
	estimators := make(chan cc.BandwidthEstimator, 1)
	peer := newPeer(func(engine *webrtc.MediaEngine, registry *interceptor.Registry) {
		factory, err := cc.NewInterceptor(func() (cc.BandwidthEstimator, error) {
			return gcc.NewSendSideBWE(
				gcc.SendSideBWEInitialBitrate(startRate), gcc.SendSideBWEMinBitrate(50_000),
				gcc.SendSideBWEMaxBitrate(*most*1000),
			)
		})
		check(err)
		factory.OnNewPeerConnection(func(_ string, estimator cc.BandwidthEstimator) { estimators <- estimator })
		registry.Add(factory)
		check(webrtc.ConfigureTWCCHeaderExtensionSender(engine, registry))
		check(webrtc.RegisterDefaultInterceptors(engine, registry))
	})
	estimator := <-estimators
	one := newLayer("")
	key, _ := accessUnits(*layers)
	sendOnly := webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionSendonly}
	transceiver, err := peer.AddTransceiverFromTrack(one.track, sendOnly)
	check(err)
	audioTrack, err := webrtc.NewTrackLocalStaticSample(audioCodec.RTPCodecCapability, "audio", "pion")
	check(err)
	audioTransceiver, err := peer.AddTransceiverFromTrack(audioTrack, sendOnly)
	check(err)
	session := connect(peer, target)
	go one.listen(transceiver.Sender())
	// Interceptors see what is read, and reports of arrivals may name either track.
	go func() {
		for {
			if _, _, err := audioTransceiver.Sender().ReadRTCP(); err != nil {
				return
			}
		}
	}()
	go sendAudio(audioTrack)
	var targets []int
	go func() {
		noise := make([]byte, *most*1000/8)
		_, err := rand.Read(noise)
		check(err)
		// A zero might look like a start code.
		for at := range noise {
			noise[at] |= 1
		}
		interval := time.Duration(float64(time.Second) / *rate)
		ticker := time.NewTicker(interval)
		for number := 0; ; number++ {
			<-ticker.C
			allowed := estimator.GetTargetBitrate()
			if number%25 == 0 {
				targets = append(targets, allowed/1000)
			}
			bytes := max(int(float64(allowed-audioRate)/8 / *rate)-headerBytes, 50)
			one.units, one.next = []unit{{bytes: append([]byte{0, 0, 0, 1, 0x41}, noise[:bytes]...)}}, 0
			if number == 0 || one.asked.Swap(false) {
				one.units = key[:1]
			}
			one.send(uint32(90000 / *rate), nil)
		}
	}()
	_, _ = io.Copy(io.Discard, os.Stdin)
	say("done", facts{"targets_kbit": targets, "stats": estimator.GetStats(), "pli": one.pli.Load()})
	end(peer, session)
}

package main

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pion/interceptor"
	"github.com/pion/interceptor/pkg/twcc"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/pion/sdp/v3"
	"github.com/pion/webrtc/v4"
)

const (
	// What is missing for so long is given up, and a key frame asked for.
	patience = time.Second
	// Time between two requests for a key frame.
	askAgain = 500 * time.Millisecond
	// A gap that is not a matter of order is asked for, again after a round trip with some queue, and so often.
	reordered   = 10 * time.Millisecond
	repairAgain = 120 * time.Millisecond
	repairsMax  = 10
)

// gap is a number that has not come.
type gap struct {
	due   time.Time
	asked int
}

// viewer puts pictures together in their order.
type viewer struct {
	sync.Mutex
	began time.Time
	// Sequence parameter sets of the layers.
	sets    []string
	layer   int
	packets map[int64]*rtp.Packet
	missing map[int64]*gap
	// Newest number, and the first one that was not shown yet.
	highest, next int64
	first         int64
	stuckSince    time.Time
	needsKey      bool
	askedAt       time.Time
	ssrc          uint32
	ask           func(ssrc uint32)
	repair        func(ssrc uint32, numbers []uint16)

	// [ms, bits] of each packet of video that came for the first time, [ms, layer] of each picture.
	bits, pictures [][2]int64
	unique, asked  int
	ssrcs          map[uint32]bool
	audioCame      int
	audioFirst     int64
	audioHighest   int64
}

func (it *viewer) ms(now time.Time) int64 { return now.Sub(it.began).Milliseconds() }

// unwrapped is the number next to `near` that ends in `sequence`.
func unwrapped(near int64, sequence uint16) int64 {
	return near + int64(int16(sequence-uint16(near)))
}

func (it *viewer) takeAudio(packet *rtp.Packet) {
	it.Lock()
	defer it.Unlock()
	if it.audioCame == 0 {
		it.audioFirst, it.audioHighest = int64(packet.SequenceNumber), int64(packet.SequenceNumber)
	}
	it.audioCame++
	it.audioHighest = max(it.audioHighest, unwrapped(it.audioHighest, packet.SequenceNumber))
}

func (it *viewer) takeVideo(packet *rtp.Packet, now time.Time) {
	it.Lock()
	defer it.Unlock()
	it.ssrcs[packet.SSRC] = true
	if len(it.ssrcs) == 1 && it.ssrc == 0 {
		it.ssrc = packet.SSRC
		it.first = int64(packet.SequenceNumber) + 1<<16
		it.highest, it.next = it.first-1, it.first
		it.needsKey, it.askedAt = true, now
	}
	number := unwrapped(it.highest, packet.SequenceNumber)
	if _, known := it.packets[number]; known || number < it.next-2000 {
		return
	}
	it.unique++
	it.bits = append(it.bits, [2]int64{it.ms(now), int64(packet.MarshalSize()) * 8})
	it.packets[number] = packet
	delete(it.missing, number)
	for lost := it.highest + 1; lost < number; lost++ {
		it.missing[lost] = &gap{due: now.Add(reordered)}
	}
	it.highest = max(it.highest, number)
	delete(it.packets, it.highest-5000)
	it.show(now)
}

// show looks for pictures that are complete.
func (it *viewer) show(now time.Time) {
	if it.needsKey {
		it.findKey(now)
	}
	for !it.needsKey {
		end, isComplete := it.pictureFrom(it.next)
		if !isComplete {
			// As browsers do: a key frame that is complete needs nothing of what is missing before it.
			if !it.showKey(it.next+1, now) {
				break
			}
			continue
		}
		it.shown(it.next, end, now)
	}
	if it.next > it.highest {
		it.stuckSince = time.Time{}
	} else if it.stuckSince.IsZero() {
		it.stuckSince = now
	}
}

// pictureFrom is the number behind the picture that begins at `from`, if all of it is there.
func (it *viewer) pictureFrom(from int64) (int64, bool) {
	for number := from; ; number++ {
		packet := it.packets[number]
		if packet == nil {
			return 0, false
		}
		if packet.Marker {
			return number + 1, true
		}
	}
}

// shown notes a picture. Packets of padding only are no picture.
func (it *viewer) shown(from, end int64, now time.Time) {
	isPicture := false
	for number := from; number < end; number++ {
		nalUnits(it.packets[number].Payload, func(kind byte, whole []byte) {
			isPicture = true
			if kind != nalSPS || whole == nil {
				return
			}
			for at, set := range it.sets {
				if set == string(whole) {
					it.layer = at
				}
			}
		})
	}
	if isPicture {
		it.pictures = append(it.pictures, [2]int64{it.ms(now), int64(it.layer)})
	}
	it.next, it.stuckSince = end, time.Time{}
}

// findKey shows the first complete key frame behind what was shown; or asks for one.
func (it *viewer) findKey(now time.Time) {
	if !it.showKey(it.next, now) && now.Sub(it.askedAt) > askAgain {
		it.askedAt = now
		it.asked++
		it.ask(it.ssrc)
	}
}

// showKey shows the first complete key frame from a number on, if there is one.
func (it *viewer) showKey(from int64, now time.Time) bool {
	for number := from; number <= it.highest; number++ {
		packet := it.packets[number]
		isKey := false
		if packet != nil {
			nalUnits(packet.Payload, func(kind byte, _ []byte) { isKey = isKey || kind == nalSPS })
		}
		if !isKey {
			continue
		}
		if end, isComplete := it.pictureFrom(number); isComplete {
			it.needsKey = false
			it.shown(number, end, now)
			return true
		}
	}
	return false
}

// tick gives up what has been missing for long.
func (it *viewer) tick(now time.Time) {
	it.Lock()
	defer it.Unlock()
	if it.ssrc == 0 {
		return
	}
	if !it.needsKey && !it.stuckSince.IsZero() && now.Sub(it.stuckSince) > patience {
		it.needsKey = true
	}
	it.show(now)
	var numbers []uint16
	for number, lost := range it.missing {
		if number < it.next || lost.asked == repairsMax {
			delete(it.missing, number)
		} else if !now.Before(lost.due) {
			lost.due, lost.asked = now.Add(repairAgain), lost.asked+1
			numbers = append(numbers, uint16(number))
		}
	}
	if len(numbers) > 0 {
		slices.Sort(numbers)
		it.repair(it.ssrc, numbers)
	}
}

// watch plays, with transport-wide feedback as Pion's interceptor gives it. NACKs are our own:
// Pion's generator does not see what came by RTX, and asks for it every 100 ms until it is 512
// packets old.
func watch(target string) {
	peer := newPeer(func(engine *webrtc.MediaEngine, registry *interceptor.Registry) {
		engine.RegisterFeedback(webrtc.RTCPFeedback{Type: "nack"}, webrtc.RTPCodecTypeVideo)
		engine.RegisterFeedback(webrtc.RTCPFeedback{Type: "nack", Parameter: "pli"}, webrtc.RTPCodecTypeVideo)
		check(webrtc.ConfigureRTCPReports(registry))
		for _, kind := range []webrtc.RTPCodecType{webrtc.RTPCodecTypeVideo, webrtc.RTPCodecTypeAudio} {
			engine.RegisterFeedback(webrtc.RTCPFeedback{Type: webrtc.TypeRTCPFBTransportCC}, kind)
			check(engine.RegisterHeaderExtension(webrtc.RTPHeaderExtensionCapability{URI: sdp.TransportCCURI}, kind))
		}
		reports, err := twcc.NewSenderInterceptor(twcc.SendInterval(time.Duration(*feedback) * time.Millisecond))
		check(err)
		registry.Add(reports)
	})
	for _, kind := range []webrtc.RTPCodecType{webrtc.RTPCodecTypeVideo, webrtc.RTPCodecTypeAudio} {
		_, err := peer.AddTransceiverFromKind(kind, webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionRecvonly})
		check(err)
	}
	it := &viewer{
		layer: -1, packets: map[int64]*rtp.Packet{}, ssrcs: map[uint32]bool{}, bits: [][2]int64{}, pictures: [][2]int64{},
		missing: map[int64]*gap{},
	}
	it.repair = func(ssrc uint32, numbers []uint16) {
		pairs := rtcp.NackPairsFromSequenceNumbers(numbers)
		_ = peer.WriteRTCP([]rtcp.Packet{&rtcp.TransportLayerNack{MediaSSRC: ssrc, Nacks: pairs}})
	}
	it.ask = func(ssrc uint32) { _ = peer.WriteRTCP([]rtcp.Packet{&rtcp.PictureLossIndication{MediaSSRC: ssrc}}) }
	for _, file := range strings.Split(*layers, ",") {
		_, set := accessUnits(file)
		it.sets = append(it.sets, string(set))
	}
	began := make(chan struct{})
	var once sync.Once
	peer.OnTrack(func(track *webrtc.TrackRemote, _ *webrtc.RTPReceiver) {
		for {
			packet, _, err := track.ReadRTP()
			if err != nil {
				return
			}
			now := time.Now()
			once.Do(func() {
				it.Lock()
				it.began = now
				it.Unlock()
				close(began)
			})
			if track.Kind() == webrtc.RTPCodecTypeAudio {
				it.takeAudio(packet)
			} else {
				it.takeVideo(packet, now)
			}
		}
	})
	session := connect(peer, target)
	select {
	case <-began:
	case <-time.After(15 * time.Second):
		say("failed", facts{"reason": "no media within 15 s"})
		return
	}
	ends := time.After(time.Duration(*seconds * float64(time.Second)))
	ticker := time.NewTicker(10 * time.Millisecond)
	for isOver := false; !isOver; {
		select {
		case <-ends:
			isOver = true
		case now := <-ticker.C:
			it.tick(now)
		}
	}
	it.Lock()
	audioExpected := it.audioHighest - it.audioFirst + 1
	say("done", facts{
		"began_ns": it.began.UnixNano(), "bits": it.bits, "pictures": it.pictures, "pli": it.asked, "ssrcs": len(it.ssrcs),
		"packets": it.unique, "missing": it.highest - it.first + 1 - int64(it.unique),
		"audio": it.audioCame, "audio_missing": audioExpected - int64(it.audioCame),
	})
	it.Unlock()
	end(peer, session)
}

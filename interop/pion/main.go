// Publishes by WHIP or plays by WHEP with Pion.
//
// usage: pion publish|play [flags] URL
//
// Publishing: a file of H.264 or H.265 (Annex B, with access unit delimiters) or IVF (VP8, VP9, AV1) and an Ogg/Opus file, again
// and again, until standard input ends. Playing: until -frames pictures (markers of RTP) and as many packets of audio have
// come; what came is written to -out.* for a decoder. Only the codec -codec is offered, if it is given.
// What is printed, and why, is said in interop/README.md.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/webrtc/v4"
	"github.com/pion/webrtc/v4/pkg/media"
	"github.com/pion/webrtc/v4/pkg/media/h264reader"
	"github.com/pion/webrtc/v4/pkg/media/h264writer"
	"github.com/pion/webrtc/v4/pkg/media/h265reader"
	"github.com/pion/webrtc/v4/pkg/media/h265writer"
	"github.com/pion/webrtc/v4/pkg/media/ivfreader"
	"github.com/pion/webrtc/v4/pkg/media/ivfwriter"
	"github.com/pion/webrtc/v4/pkg/media/oggreader"
	"github.com/pion/webrtc/v4/pkg/media/oggwriter"
)

var (
	video   = flag.String("video", "", "publish: file of H.264 (.h264), H.265 (.h265) or VP8, VP9, AV1 (.ivf)")
	audio   = flag.String("audio", "", "publish: file of Opus (.ogg)")
	rate    = flag.Float64("rate", 25, "publish: pictures a second of the file")
	out     = flag.String("out", "", "play: files to write, without .h264, .h265, .ivf, .ogg")
	codec   = flag.String("codec", "", "play: the one codec of video to offer: h264, h265, vp8, vp9 or av1")
	frames  = flag.Int("frames", 50, "play: pictures and packets of audio to wait for")
	seconds = flag.Float64("seconds", 30, "longest time to wait")
	network = flag.String("network", "udp4", "udp4, udp6 or tcp4")
)

type facts map[string]any

func say(event string, more facts) {
	more["event"] = event
	line, _ := json.Marshal(more)
	fmt.Println(string(line))
}

func check(err error) {
	if err != nil {
		say("failed", facts{"reason": err.Error()})
		os.Exit(1)
	}
}

// newPeer offers these codecs; all that Pion knows when there are none.
func newPeer(offered ...webrtc.RTPCodecParameters) *webrtc.PeerConnection {
	settings := webrtc.SettingEngine{}
	types := map[string]webrtc.NetworkType{
		"udp4": webrtc.NetworkTypeUDP4, "udp6": webrtc.NetworkTypeUDP6, "tcp4": webrtc.NetworkTypeTCP4,
	}
	settings.SetNetworkTypes([]webrtc.NetworkType{types[*network]})
	settings.SetIncludeLoopbackCandidate(true)
	codecs := &webrtc.MediaEngine{}
	for _, codec := range offered {
		kind := webrtc.RTPCodecTypeVideo
		if codec.MimeType == webrtc.MimeTypeOpus {
			kind = webrtc.RTPCodecTypeAudio
		}
		check(codecs.RegisterCodec(codec, kind))
	}
	if len(offered) == 0 {
		check(codecs.RegisterDefaultCodecs())
	}
	peer, err := webrtc.NewAPI(webrtc.WithSettingEngine(settings), webrtc.WithMediaEngine(codecs)).
		NewPeerConnection(webrtc.Configuration{})
	check(err)
	return peer
}

// exchange posts an offer with all candidates and gives the URL of the session.
func exchange(peer *webrtc.PeerConnection, target string) string {
	offer, err := peer.CreateOffer(nil)
	check(err)
	gathered := webrtc.GatheringCompletePromise(peer)
	check(peer.SetLocalDescription(offer))
	<-gathered
	var response *http.Response
	for asked := 0; ; asked++ {
		var err error
		response, err = http.Post(target, "application/sdp", strings.NewReader(peer.LocalDescription().SDP))
		check(err)
		// A publisher that has just begun: the server says when to ask again.
		after, err := strconv.Atoi(response.Header.Get("Retry-After"))
		if response.StatusCode != http.StatusConflict || err != nil || asked == 5 {
			break
		}
		response.Body.Close()
		time.Sleep(time.Duration(after) * time.Second)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	check(err)
	if response.StatusCode != http.StatusCreated {
		check(fmt.Errorf("%s: %s", response.Status, answer))
	}
	check(peer.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: string(answer)}))
	base, err := url.Parse(target)
	check(err)
	location, err := base.Parse(response.Header.Get("Location"))
	check(err)
	return location.String()
}

func connected(peer *webrtc.PeerConnection) <-chan struct{} {
	done := make(chan struct{})
	var once sync.Once
	peer.OnConnectionStateChange(func(state webrtc.PeerConnectionState) {
		switch state {
		case webrtc.PeerConnectionStateConnected:
			pair, _ := peer.SCTP().Transport().ICETransport().GetSelectedCandidatePair()
			if pair == nil {
				pair = &webrtc.ICECandidatePair{}
			}
			say("connected", facts{"pair": fmt.Sprint(pair)})
			once.Do(func() { close(done) })
		case webrtc.PeerConnectionStateFailed:
			check(errors.New("the connection failed"))
		}
	})
	return done
}

func end(peer *webrtc.PeerConnection, session string) {
	// In this order: DTLS's close_notify ends the session as well, and then there is nothing left to delete.
	request, err := http.NewRequest(http.MethodDelete, session, nil)
	check(err)
	response, err := http.DefaultClient.Do(request)
	check(err)
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		check(fmt.Errorf("DELETE: %s", response.Status))
	}
	check(peer.Close())
}

var audioCodec = webrtc.RTPCodecParameters{PayloadType: 111, RTPCodecCapability: webrtc.RTPCodecCapability{
	MimeType: webrtc.MimeTypeOpus, ClockRate: 48000, Channels: 2, SDPFmtpLine: "minptime=10;useinbandfec=1",
}}

func videoCodec(kind string) webrtc.RTPCodecParameters {
	fmtp := map[string]string{
		webrtc.MimeTypeH264: "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f",
		webrtc.MimeTypeH265: "level-id=93;profile-id=1;tier-flag=0;tx-mode=SRST",
		webrtc.MimeTypeVP9:  "profile-id=0",
		webrtc.MimeTypeAV1:  "level-idx=5;profile=0;tier=0",
	}
	return webrtc.RTPCodecParameters{PayloadType: 96, RTPCodecCapability: webrtc.RTPCodecCapability{
		MimeType: kind, ClockRate: 90000, SDPFmtpLine: fmtp[kind],
		RTCPFeedback: []webrtc.RTCPFeedback{{Type: "nack"}, {Type: "nack", Parameter: "pli"}},
	}}
}

// mimeTypeOf tells by the name of a file what is in it, and of IVF by its header.
func mimeTypeOf(path string) string {
	switch {
	case strings.HasSuffix(path, ".h264"):
		return webrtc.MimeTypeH264
	case strings.HasSuffix(path, ".h265"):
		return webrtc.MimeTypeH265
	}
	file, err := os.Open(path)
	check(err)
	defer file.Close()
	_, header, err := ivfreader.NewWith(file)
	check(err)
	kinds := map[string]string{"VP80": webrtc.MimeTypeVP8, "VP90": webrtc.MimeTypeVP9, "AV01": webrtc.MimeTypeAV1}
	return kinds[header.FourCC]
}

// publish sends both files until standard input ends.
func publish(target string) {
	// Only what will be sent is offered: a server takes the first codec of an offer that it knows.
	videoCodec := videoCodec(mimeTypeOf(*video))
	kind := videoCodec.MimeType
	peer := newPeer(videoCodec, audioCodec)
	videoTrack, err := webrtc.NewTrackLocalStaticSample(videoCodec.RTPCodecCapability, "video", "pion")
	check(err)
	audioTrack, err := webrtc.NewTrackLocalStaticSample(audioCodec.RTPCodecCapability, "audio", "pion")
	check(err)
	for _, track := range []webrtc.TrackLocal{videoTrack, audioTrack} {
		_, err := peer.AddTransceiverFromTrack(track, webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionSendonly})
		check(err)
	}
	done := connected(peer)
	session := exchange(peer, target)
	<-done
	go sendVideo(videoTrack, kind)
	go sendAudio(audioTrack)
	_, _ = io.Copy(io.Discard, os.Stdin)
	ending.Store(true)
	say("done", facts{})
	end(peer, session)
}

// ending says that a connection may be closed under those who still send: over TCP that is an error to them.
var ending atomic.Bool

// sendVideo sends access units at the file's rate.
func sendVideo(track *webrtc.TrackLocalStaticSample, kind string) {
	interval := time.Duration(float64(time.Second) / *rate)
	ticker := time.NewTicker(interval)
	for {
		file, err := os.ReadFile(*video)
		check(err)
		var next func() ([]byte, error)
		switch kind {
		case webrtc.MimeTypeH264:
			reader, err := h264reader.NewReader(bytes.NewReader(file))
			check(err)
			next = accessUnits(func() ([]byte, bool, error) {
				nal, err := reader.NextNAL()
				if err != nil {
					return nil, false, err
				}
				return nal.Data, nal.UnitType == h264reader.NalUnitTypeAUD, nil
			})
		case webrtc.MimeTypeH265:
			reader, err := h265reader.NewReader(bytes.NewReader(file))
			check(err)
			next = accessUnits(func() ([]byte, bool, error) {
				nal, err := reader.NextNAL()
				if err != nil {
					return nil, false, err
				}
				return nal.Data, nal.NalUnitType == h265reader.NalUnitTypeAud, nil
			})
		default:
			reader, _, err := ivfreader.NewWith(bytes.NewReader(file))
			check(err)
			next = func() ([]byte, error) { unit, _, err := reader.ParseNextFrame(); return unit, err }
		}
		for {
			unit, err := next()
			if errors.Is(err, io.EOF) {
				break
			}
			check(err)
			<-ticker.C
			if err := track.WriteSample(media.Sample{Data: unit, Duration: interval}); ending.Load() {
				return
			} else {
				check(err)
			}
		}
	}
}

// accessUnits joins the NAL units between two delimiters.
func accessUnits(nextNAL func() (nal []byte, isDelimiter bool, err error)) func() ([]byte, error) {
	ended := false
	return func() ([]byte, error) {
		if ended {
			return nil, io.EOF
		}
		var unit []byte
		for {
			nal, isDelimiter, err := nextNAL()
			if errors.Is(err, io.EOF) {
				ended = true
				return unit, nil
			} else if err != nil {
				return nil, err
			}
			if isDelimiter {
				if len(unit) > 0 {
					return unit, nil
				}
				continue
			}
			unit = append(append(unit, 0, 0, 0, 1), nal...)
		}
	}
}

func sendAudio(track *webrtc.TrackLocalStaticSample) {
	const interval = 20 * time.Millisecond
	ticker := time.NewTicker(interval)
	for {
		file, err := os.ReadFile(*audio)
		check(err)
		reader, _, err := oggreader.NewWith(bytes.NewReader(file))
		check(err)
		for {
			page, header, err := reader.ParseNextPage()
			if errors.Is(err, io.EOF) {
				break
			}
			check(err)
			if header.GranulePosition == 0 || bytes.HasPrefix(page, []byte("Opus")) {
				continue
			}
			<-ticker.C
			if err := track.WriteSample(media.Sample{Data: page, Duration: interval}); ending.Load() {
				return
			} else {
				check(err)
			}
		}
	}
}

type counts struct {
	sync.Mutex
	video, audio, packets, missing int
	codec                          string
	// Steps of the video's RTP time between pictures: how often it went back, and the longest.
	backwards   int
	longestStep uint32
}

// play receives until there is enough.
func play(target string) {
	var offered []webrtc.RTPCodecParameters
	if *codec != "" {
		kinds := map[string]string{
			"h264": webrtc.MimeTypeH264, "h265": webrtc.MimeTypeH265,
			"vp8": webrtc.MimeTypeVP8, "vp9": webrtc.MimeTypeVP9, "av1": webrtc.MimeTypeAV1,
		}
		offered = []webrtc.RTPCodecParameters{videoCodec(kinds[*codec]), audioCodec}
	}
	peer := newPeer(offered...)
	for _, kind := range []webrtc.RTPCodecType{webrtc.RTPCodecTypeVideo, webrtc.RTPCodecTypeAudio} {
		_, err := peer.AddTransceiverFromKind(kind, webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionRecvonly})
		check(err)
	}
	seen := &counts{}
	enough := make(chan struct{})
	var once sync.Once
	peer.OnTrack(func(track *webrtc.TrackRemote, _ *webrtc.RTPReceiver) {
		receive(track, seen, func() { once.Do(func() { close(enough) }) })
	})
	done := connected(peer)
	began := time.Now()
	session := exchange(peer, target)
	<-done
	failed := false
	select {
	case <-enough:
	case <-time.After(time.Duration(*seconds * float64(time.Second))):
		failed = true
	}
	seen.Lock()
	say("done", facts{"frames": seen.video, "audio": seen.audio, "packets": seen.packets, "missing": seen.missing,
		"codec": seen.codec, "backwards": seen.backwards, "longest_step_ms": seen.longestStep / 90,
		"took": time.Since(began).Seconds()})
	seen.Unlock()
	end(peer, session)
	if failed {
		os.Exit(1)
	}
}

func writer(track *webrtc.TrackRemote) (media.Writer, error) {
	switch track.Codec().MimeType {
	case webrtc.MimeTypeH264:
		return h264writer.New(*out + ".h264")
	case webrtc.MimeTypeH265:
		return h265writer.New(*out + ".h265")
	case webrtc.MimeTypeVP8, webrtc.MimeTypeVP9, webrtc.MimeTypeAV1:
		return ivfwriter.New(*out+".ivf", ivfwriter.WithCodec(track.Codec().MimeType))
	case webrtc.MimeTypeOpus:
		return oggwriter.New(*out+".ogg", 48000, 2)
	}
	return nil, errors.New("unexpected " + track.Codec().MimeType)
}

func receive(track *webrtc.TrackRemote, seen *counts, enough func()) {
	file, err := writer(track)
	check(err)
	defer file.Close()
	last, lastTime := -1, uint32(0)
	for {
		packet, _, err := track.ReadRTP()
		if err != nil {
			return
		}
		seen.Lock()
		seen.packets++
		if last >= 0 && packet.SequenceNumber != uint16(last)+1 {
			seen.missing += int(packet.SequenceNumber - uint16(last) - 1)
		}
		if last >= 0 && track.Kind() == webrtc.RTPCodecTypeVideo {
			if step := packet.Timestamp - lastTime; step >= 1<<31 {
				seen.backwards++
			} else if step > seen.longestStep {
				seen.longestStep = step
			}
		}
		last, lastTime = int(packet.SequenceNumber), packet.Timestamp
		if track.Kind() == webrtc.RTPCodecTypeAudio {
			seen.audio++
		} else {
			seen.codec = track.Codec().MimeType
			if packet.Marker {
				seen.video++
			}
		}
		isEnough := seen.video >= *frames && seen.audio >= *frames
		seen.Unlock()
		check(file.WriteRTP(packet))
		if isEnough {
			enough()
		}
	}
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: pion publish|play [flags] URL")
		os.Exit(2)
	}
	check(flag.CommandLine.Parse(os.Args[2:]))
	switch os.Args[1] {
	case "publish":
		publish(flag.Arg(0))
	case "play":
		play(flag.Arg(0))
	}
}

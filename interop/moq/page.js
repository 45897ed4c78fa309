// The player and the publisher of moq.dev, as the page of scripts/test-interop-moq.
import '@moq/watch/element';
import '@moq/publish/element';

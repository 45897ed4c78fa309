/**
 * Last line against a blank page: shows what went wrong when a component throws.
 */
import { Component, type ComponentChildren } from 'preact';

interface Props {
  children: ComponentChildren;
}

export class ErrorBoundary extends Component<Props, { error: Error | null }> {
  override state = { error: null as Error | null };

  static override getDerivedStateFromError(error: unknown): { error: Error } {
    return { error: error instanceof Error ? error : new Error(String(error)) };
  }

  override render() {
    if (this.state.error === null) return this.props.children;
    return (
      <div class="panel crash" role="alert">
        <h1>This page has a fault</h1>
        <p>The server is not affected. The fault is in the console itself:</p>
        <pre>
          <code>{this.state.error.message}</code>
        </pre>
        <div class="button-row">
          <button type="button" class="button button-primary" onClick={() => location.reload()}>
            Load the console again
          </button>
        </div>
      </div>
    );
  }
}

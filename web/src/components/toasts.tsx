/**
 * Draws the short messages of state/toasts.ts in a corner and reads them out.
 */
import { useServices, useStore } from '../state/hooks';
import { Icon } from './icons';

export function ToastList() {
  const { toasts } = useServices();
  const shown = useStore(toasts.store);
  return (
    <div class="toasts" role="status" aria-live="polite" data-testid="toasts">
      {shown.map((toast) => (
        <div key={toast.id} class={`toast toast-${toast.kind}`}>
          <span>{toast.text}</span>
          <button
            type="button"
            class="icon-button"
            aria-label="Dismiss"
            onClick={() => toasts.dismiss(toast.id)}>
            <Icon name="close" size={16} />
          </button>
        </div>
      ))}
    </div>
  );
}

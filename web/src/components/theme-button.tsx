/**
 * Steps through the three themes: as the system says, dark, light.
 */
import { useEffect } from 'preact/hooks';
import { useServices, useStore } from '../state/hooks';
import type { Theme } from '../state/preferences';
import { Icon } from './icons';

const NEXT: Record<Theme, Theme> = { system: 'dark', dark: 'light', light: 'system' };
const ICON = { system: 'system', dark: 'moon', light: 'sun' } as const;
const WORDS: Record<Theme, string> = { system: 'as the system', dark: 'dark', light: 'light' };

export function ThemeButton() {
  const { preferences } = useServices();
  const theme = useStore(preferences.theme);
  return (
    <button
      type="button"
      class="icon-button theme-button"
      onClick={() => preferences.theme.set(NEXT[theme])}
      aria-label={`Theme: ${WORDS[theme]}. Change to ${WORDS[NEXT[theme]]}.`}
      title={`Theme: ${WORDS[theme]}`}>
      <Icon name={ICON[theme]} />
    </button>
  );
}

/** Puts the chosen theme on the document; style sheets do the rest. */
export function useTheme(): void {
  const { preferences } = useServices();
  const theme = useStore(preferences.theme);
  useEffect(() => {
    if (theme === 'system') delete document.documentElement.dataset['theme'];
    else document.documentElement.dataset['theme'] = theme;
  }, [theme]);
}

// Dark or light: as the system has it, unless somebody said otherwise here.
import { useEffect, useState } from 'preact/hooks'
import { useKept } from './parts'

export type Theme = 'system' | 'dark' | 'light'

/** useTheme is what was chosen, what it comes to, and the way to choose. */
export function useTheme(): { chosen: Theme; dark: boolean; choose: (theme: Theme) => void } {
  const [chosen, choose] = useKept<Theme>('theme', 'system')
  const query = window.matchMedia('(prefers-color-scheme: dark)')
  const [system, set] = useState(query.matches)
  useEffect(() => {
    const changed = () => set(query.matches)
    query.addEventListener('change', changed)
    return () => query.removeEventListener('change', changed)
  }, [])
  const dark = chosen === 'system' ? system : chosen === 'dark'
  document.documentElement.dataset.theme = dark ? 'dark' : 'light'
  return { chosen, dark, choose }
}

/** colour is one of the style sheet's, for what is drawn on a canvas. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim()
}

/** ofState is the colour of a trial's state. */
export function ofState(state: string): string {
  return colour(state.toLowerCase().replaceAll('_', '-')) || colour('faint')
}

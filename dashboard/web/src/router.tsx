// Which page an address means.
import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'

const moved = 'perennial:moved'

/** usePath is the address without what stands before and behind it, and its query. */
export function usePath(): { path: string; query: URLSearchParams } {
  const [at, set] = useState(location.pathname + location.search)
  useEffect(() => {
    const changed = () => set(location.pathname + location.search)
    window.addEventListener('popstate', changed)
    window.addEventListener(moved, changed)
    return () => { window.removeEventListener('popstate', changed); window.removeEventListener(moved, changed) }
  }, [])
  const url = new URL(at, location.origin)
  return { path: url.pathname, query: url.searchParams }
}

/** go opens a page; replace leaves none to come back to. */
export function go(to: string, replace = false) {
  history[replace ? 'replaceState' : 'pushState'](null, '', to)
  window.dispatchEvent(new Event(moved))
  if (!replace) window.scrollTo(0, 0)
}

/** Go is a link to a page. */
export function Go({ to, children, ...rest }: {
  to: string; children: ComponentChildren; class?: string; tabIndex?: number; 'aria-current'?: 'page'; 'aria-label'?: string
}) {
  return <a {...rest} href={to} onClick={event => {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
    event.preventDefault()
    go(to)
  }}>{children}</a>
}

// Which page an address means.
import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { still } from './still'

const moved = 'perennial:moved'

/** here is the address without what stands before it. One file has one address: its pages are told apart behind the #. */
const here = () => still ? location.hash.startsWith('#/') ? location.hash.slice(1) : still.home : location.pathname + location.search

/** usePath is the address without what stands before and behind it, and its query. */
export function usePath(): { path: string; query: URLSearchParams } {
  const [at, set] = useState(here())
  useEffect(() => {
    const changed = () => set(here())
    window.addEventListener('popstate', changed)
    window.addEventListener(moved, changed)
    return () => { window.removeEventListener('popstate', changed); window.removeEventListener(moved, changed) }
  }, [])
  const url = new URL(at, 'http://here')
  return { path: url.pathname, query: url.searchParams }
}

/** go opens a page; replace leaves none to come back to. */
export function go(to: string, replace = false) {
  if (still) {
    location.hash = to
    window.scrollTo(0, 0)
    return
  }
  history[replace ? 'replaceState' : 'pushState'](null, '', to)
  window.dispatchEvent(new Event(moved))
  if (!replace) window.scrollTo(0, 0)
}

/** Go is a link to a page. */
export function Go({ to, children, ...rest }: {
  to: string; children: ComponentChildren; class?: string; tabIndex?: number; 'aria-current'?: 'page'; 'aria-label'?: string
}) {
  if (still && !to.startsWith(still.home)) return <span class={rest.class}>{children}</span>
  return <a {...rest} href={still ? '#' + to : to} onClick={event => {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
    event.preventDefault()
    go(to)
  }}>{children}</a>
}

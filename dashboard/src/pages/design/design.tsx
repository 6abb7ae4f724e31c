// Every component in every state, in both themes side by side. Only a control plane in development shows it: it is for
// looking at a change of the styles, and for tests.
import { useEffect, useState } from 'react'
import { Page } from '../../components/page.tsx'
import { Skeleton } from '../../components/states.tsx'
import { Toasts } from '../../components/toast.tsx'
import { Tooltips } from '../../components/tooltip.tsx'
import { NotFound } from '../not-found.tsx'
import css from './design.module.css'
import { Gallery } from './gallery.tsx'

/** The control plane has this address only in development. */
const useDevelopment = (): boolean | undefined => {
  const [isOn, setOn] = useState<boolean>()
  useEffect(() => {
    fetch('/design/on').then(
      ({ status }) => setOn(status === 204),
      () => setOn(false),
    )
  }, [])
  return isOn
}

export function Design() {
  const isOn = useDevelopment()
  if (isOn === undefined) return <Skeleton />
  if (!isOn) return <NotFound />
  return (
    <main>
      <Page title="Design">
        <div className={css.themes}>
          {(['light', 'dark'] as const).map((theme) => (
            <section key={theme} className={`${css.theme} ${css[theme]}`} aria-label={theme}>
              <Gallery theme={theme} />
            </section>
          ))}
        </div>
      </Page>
      <Toasts />
      <Tooltips />
    </main>
  )
}

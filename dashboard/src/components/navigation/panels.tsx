// Tabs within a page: one panel is shown at a time and has no address. Parts of a page with an address use <Tabs>.
import { Tabs } from '@base-ui/react/tabs'
import type { ReactNode } from 'react'
import css from './panels.module.css'

interface PanelsProps {
  label: string
  panels: readonly { id: string; label: string; content: ReactNode }[]
}

export function Panels({ label, panels }: PanelsProps) {
  return (
    <Tabs.Root defaultValue={panels[0]?.id ?? ''} className={css.root ?? ''}>
      <Tabs.List className={css.list ?? ''} aria-label={label}>
        {panels.map((panel) => (
          <Tabs.Tab key={panel.id} value={panel.id} className={css.tab ?? ''}>
            {panel.label}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      {panels.map((panel) => (
        <Tabs.Panel key={panel.id} value={panel.id}>
          {panel.content}
        </Tabs.Panel>
      ))}
    </Tabs.Root>
  )
}

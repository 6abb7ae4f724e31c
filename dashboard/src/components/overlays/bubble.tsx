// The tooltip itself: Base UI places it beside its element and closes it on Escape.
import { Tooltip } from '@base-ui/react/tooltip'
import css from './bubble.module.css'
import { landmarkOf } from './landmark.ts'

export interface Tip {
  anchor: HTMLElement
  text: string
}

export default function Bubble({ tip, onClose }: { tip: Tip; onClose(): void }) {
  return (
    <Tooltip.Root
      open
      onOpenChange={(isOpen) => {
        if (!isOpen) onClose()
      }}
    >
      <Tooltip.Portal container={landmarkOf(tip.anchor)} className={css.portal ?? ''}>
        <Tooltip.Positioner
          anchor={tip.anchor}
          sideOffset={6}
          collisionPadding={8}
          className={css.place ?? ''}
        >
          <Tooltip.Popup className={css.bubble ?? ''}>{tip.text}</Tooltip.Popup>
        </Tooltip.Positioner>
      </Tooltip.Portal>
    </Tooltip.Root>
  )
}

// Text to copy: a command, a key, or a secret that is shown only once.
import { useState } from 'react'
import { Button } from './button.tsx'
import css from './copy.module.css'
import { Icon } from './icon.tsx'
import { say } from './toast.tsx'

async function copy(text: string): Promise<void> {
  await navigator.clipboard.writeText(text)
}

export function CopyField({ label, text }: { label: string; text: string }) {
  const [isCopied, setCopied] = useState(false)
  const take = () => {
    copy(text).then(
      () => {
        setCopied(true)
        say('Copied.')
      },
      () => say("Couldn't copy. Select the text instead."),
    )
  }
  return (
    <div className={css.field}>
      <code className={css.text}>{text}</code>
      <Button kind="quiet" small aria-label={`Copy ${label}`} data-tip="Copy" onClick={take}>
        <Icon name={isCopied ? 'check' : 'copy'} />
      </Button>
    </div>
  )
}

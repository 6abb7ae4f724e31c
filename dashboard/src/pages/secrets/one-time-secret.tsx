// A secret that is shown once: at its address, or inside the page that made it. It survives a reload until the person
// confirms having copied it.
import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { api, change, trpc } from '../../api.ts'
import { ActButton } from '../../components/act.tsx'
import { Button } from '../../components/button.tsx'
import { CopyField } from '../../components/copy.tsx'
import { Loaded, Note } from '../../components/states.tsx'
import { Moment } from '../../components/time.tsx'
import css from '../people/people.module.css'

export const useSecret = (id: string) =>
  useQuery({ ...trpc.secret.get.queryOptions({ id }), retry: false, staleTime: Infinity })

interface Props {
  id: string
  /** After the confirmation. */
  onDone(): void
  /** The page shows the heading and the hint itself. */
  isPlain?: boolean
  /** Beside the button. */
  beside?: ReactNode
}

export function OneTimeSecret({ id, onDone, isPlain = false, beside }: Props) {
  const query = useSecret(id)
  return (
    <Loaded query={query} what="The secret" missing={<SecretUsed />}>
      {(secret) => (
        <div className="stack">
          {!isPlain && <p>{secret.hint}</p>}
          {secret.values.map(({ label, text }) =>
            text.includes('\n') ? (
              <Codes key={label} label={label} codes={text.split('\n')} />
            ) : (
              <CopyField key={label} label={label.toLowerCase()} text={text} />
            ),
          )}
          <p className="muted small">
            Shown only to you, until you confirm or until <Moment at={secret.expires_at} />.
          </p>
          <div className="row">
            <ActButton
              kind="main"
              act={async () => {
                await change(api.secret.confirm.mutate({ id }))
                onDone()
              }}
            >
              {secret.values.some(({ text }) => text.includes('\n'))
                ? "I've saved them"
                : "I've saved it"}
            </ActButton>
            {beside}
          </div>
        </div>
      )}
    </Loaded>
  )
}

/** Confirmed, expired, or another person's: the server does not say which. */
export function SecretUsed() {
  return (
    <Note>
      This secret is no longer shown. It was confirmed, it expired, or it belongs to someone else.
    </Note>
  )
}

function Codes({ label, codes }: { label: string; codes: string[] }) {
  const download = () => {
    const url = URL.createObjectURL(new Blob([`${codes.join('\n')}\n`], { type: 'text/plain' }))
    const link = document.createElement('a')
    link.href = url
    link.download = 'berth-recovery-codes.txt'
    link.click()
    URL.revokeObjectURL(url)
  }
  return (
    <>
      <ol className={css.codes} aria-label={label}>
        {codes.map((code) => (
          <li key={code}>
            <code>{code}</code>
          </li>
        ))}
      </ol>
      <div className="row">
        <Button small onClick={download}>
          Download
        </Button>
      </div>
    </>
  )
}

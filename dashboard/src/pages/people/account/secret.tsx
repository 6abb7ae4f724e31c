// A secret that is shown once: it stays at this address until its user has saved it, so that a reload loses nothing.
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { api, change, trpc } from '../../../api.ts'
import { ActButton } from '../../../components/act.tsx'
import { Button } from '../../../components/button.tsx'
import { CopyField } from '../../../components/copy.tsx'
import { Page, Section } from '../../../components/page.tsx'
import { Empty, Loaded } from '../../../components/states.tsx'
import { Moment } from '../../../components/time.tsx'
import css from '../people.module.css'

const KINDS = {
  token: {
    title: 'New token',
    text: 'Copy it now. Anyone who has it can act as you.',
    back: '/account/tokens',
  },
  invitation: {
    title: 'Invitation link',
    text: 'We sent it by e-mail. You can also share it yourself: it works once, for this address only.',
    back: '/org/members',
  },
  recovery_codes: {
    title: 'Recovery codes',
    text: 'Save them somewhere safe. Each code signs you in once if you lose your phone and passkeys.',
    back: '/account',
  },
} as const

export function SecretPage() {
  const { id = '' } = useParams({ strict: false }) as { id?: string }
  const navigate = useNavigate()
  const query = useQuery({
    ...trpc.secret.get.queryOptions({ secret_id: Number(id) }),
    staleTime: Number.POSITIVE_INFINITY,
  })
  const kind = query.data ? KINDS[query.data.kind] : undefined
  return (
    <Page title={kind?.title ?? 'Secret'} trail={<Link to="/account">Account</Link>}>
      <Loaded
        query={query}
        what="The secret"
        missing={
          <Empty title="No longer shown.">
            <p>You saved it, it was used, or it expired. You can make a new one.</p>
          </Empty>
        }
      >
        {(secret) => {
          const { text, back } = KINDS[secret.kind]
          const codes = secret.value.split('\n')
          return (
            <Section title={codes.length > 1 ? `${codes.length} codes` : secret.title}>
              <p>{text}</p>
              {codes.length > 1 ? (
                <Codes codes={codes} />
              ) : (
                <CopyField label={secret.kind} text={secret.value} />
              )}
              <p className="muted small">
                Shown here until you confirm, at most until <Moment at={secret.expires_at} />.
              </p>
              <div className="row">
                <ActButton
                  kind="main"
                  act={async () => {
                    await change(api.secret.saved.mutate({ secret_id: secret.id }))
                    await navigate({ to: back, replace: true })
                  }}
                >
                  {codes.length > 1 ? "I've saved them" : "I've saved it"}
                </ActButton>
                <Link to={back}>Later</Link>
              </div>
            </Section>
          )
        }}
      </Loaded>
    </Page>
  )
}

function Codes({ codes }: { codes: string[] }) {
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
      <ol className={css.codes} aria-label="Recovery codes">
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

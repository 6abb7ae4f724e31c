// A secret that is shown once, at an address of its own.
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { Page, Section } from '../../components/page.tsx'
import { OneTimeSecret, useSecret } from './one-time-secret.tsx'

export function SecretPage() {
  const { id = '' } = useParams({ strict: false }) as { id?: string }
  const { data: secret, isError } = useSecret(id)
  const navigate = useNavigate()
  return (
    <Page title={secret?.title ?? 'Secret'}>
      <Section title={isError ? 'Not available' : 'Copy it now'}>
        <OneTimeSecret
          id={id}
          onDone={() => void navigate({ to: secret?.back ?? '/' })}
          beside={secret && <Link to={secret.back}>Later</Link>}
        />
      </Section>
    </Page>
  )
}

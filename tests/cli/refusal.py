"""What every refusal of the command line looks like."""


def assert_refused(case, result, *fragments):
    """Exit 2, nothing on stdout, one line on stderr that has the fragments."""
    error = result.stderr.decode()
    case.assertEqual((result.returncode, result.stdout), (2, b""), error)
    case.assertEqual(error.count("\n"), 1, error)
    for fragment in fragments:
        case.assertIn(fragment, error)

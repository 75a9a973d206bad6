"""Special functions of the CPU that are polynomials, beside what mpmath finds with 40 digits."""
import numpy as np
import pytest

import volta

POINTS = np.array([1e-09, 0.0625, 0.75, 1.4375, 1.984375, 2.015625, 3.5, 5.25, 7.984375, 8.015625, 11.5, 30.0, 250.0])
SIDES = np.array([-250.0, -20.5, -8.015625, -7.984375, -4.515625, -4.484375, -1.25, -0.0625, 1e-09, 0.5, 1.484375, 1.515625, 6.5, 20.0])
TAILS = np.array([-36.5, -12.25, -5.5, -2.125, -0.75, -1e-09, 1e-09, 0.375, 1.5, 4.75, 9.0, 25.5])
EXACT = {
    "bessel_j0": (POINTS, [1.0, 0.9990236758927106, 0.8642422751666486, 0.5464091649753103, 0.2329097196083968, 0.21488757837869987,
        -0.3801277399872634, -0.09308098963931788, 0.17529946896785106, 0.16796739943989145, -0.06765394811166522,
        -0.08636798358104021, -0.026053373425204234]),
    "bessel_j1": (POINTS, [5e-10, 0.031234743694262265, 0.34924360217486217, 0.5484104677766286, 0.5776832559113912,
        0.575668629799888, 0.1373775273623272, -0.34501397857943766, 0.2323822799475037, 0.23682968250026756, -0.22837862066532347,
        -0.11875106261662294, -0.04326903841033075]),
    "bessel_y0": (POINTS, [-13.266645074938387, -1.8364722732208494, -0.1371727693857724, 0.3553870798705615, 0.5086343286092245,
        0.5119793485388127, 0.1890219439208265, -0.33477723515498115, 0.22102217773350014, 0.225961407988287, -0.22523211169118787,
        -0.11729573168666403, -0.04321684544036627]),
    "bessel_y1": (POINTS, [-636619772.3675814, -10.25328863150691, -1.0375945507692854, -0.4538136432999887, -0.11586776312490858,
        -0.09824633785885219, 0.41018841788751187, 0.061861000898943724, -0.1618462568053337, -0.15424410536966693,
        0.057942547143000823, 0.08442557066174723, 0.025966992185484584]),
    "modified_bessel_k0": (POINTS, [20.839197352604824, 2.8923186673699384, 0.6105824221164641, 0.2319490854531475,
        0.11610188765164164, 0.11173073964645572, 0.01959889717036849, 0.0028081851095097723, 0.00014891871361995973,
        0.00014406319873086365, 3.7050381659564217e-06, 2.1324774964630563e-14, 2.1147193716964606e-110]),
    "modified_bessel_k1": (POINTS, [999999999.9999999, 15.894045582444432, 0.9495804669621403, 0.30366794817103954,
        0.14277102205620135, 0.13702586942029074, 0.022239392925923834, 0.003064795171512024, 0.0001579831895594982,
        0.0001527988223507855, 3.862894146160998e-06, 2.1677320018915495e-14, 2.118944597814e-110]),
    "scaled_modified_bessel_k0": (POINTS, [20.83919737344402, 3.0788571948399865, 1.2926029977639617, 0.9765421251765245,
        0.8445831123196775, 0.8385857705426524, 0.6490263376886884, 0.5351453574603665, 0.4370380804531382, 0.4362091387570848,
        0.36574569917668215, 0.22788666561625373, 0.07922700148470399]),
    "scaled_modified_bessel_k1": (POINTS, [1000000000.9999999, 16.919123452299978, 2.010261864333922, 1.2784898154506503,
        1.0385877146036468, 1.0284362625333827, 0.7364675480289125, 0.5840465794250734, 0.46363998338818063, 0.46265974438934604,
        0.38132857397123626, 0.2316541293777118, 0.07938529766355772]),
    "airy_ai": (SIDES, [-0.03103561412767987, -0.04462568039701191, -0.06726693243041597, -0.038040236192133384, 0.3001681654257161,
        0.2838164522406302, 0.5200454774352992, 0.3711894915099578, 0.3550280536289978, 0.23169360648083348, 0.07328427585325373,
        0.07024099344796728, 2.7958823432049136e-06, 1.6916728686705404e-27]),
    "spherical_bessel_j0": (SIDES, [-0.0038821120781672215, 0.04862584362335606, 0.12313002819956786, 0.12418139470316442,
        -0.21718020053331266, -0.21722475090474727, 0.759187695484469, 0.9993490854780832, 1.0, 0.958851077208406, 0.6711700215602544,
        0.658789904072388, 0.03309538278274085, 0.045647262536381385]),
    "erfcx": (TAILS[1:], [2.9671922519201892e+65, 27443409954929.71, 182.62671933949107, 3.003171663627452, 1.0000000011283792,
        0.9999999988716208, 0.6858572331012929, 0.3215854164543175, 0.11630270721024731, 0.06230772403777468, 0.022108108052519827]),
    "ndtr": (TAILS, [5.544725713074845e-292, 8.399796063633417e-35, 1.8989562465887718e-08, 0.016793306448448814, 0.2266273523768682,
        0.49999999960105773, 0.5000000003989423, 0.6461697666727237, 0.9331927987311419, 0.9999989829167575, 1.0, 1.0]),
    "log_ndtr": (TAILS, [-670.6420000003137, -78.46227082737593, -17.77937635262526, -4.086774897653098, -1.4844482299196562,
        -0.6931471813578298, -0.6931471797620608, -0.43669301301753843, -0.06914345561223398, -1.017083759798215e-06,
        -1.1285884059538405e-19, -9.856236518963929e-144]),
}
INCOMPLETE = (
    ("gammainc", [0.5, 0.25, 1.5, 2.25, 9.5, 44.0, 850.0], [0.9956090138588974, 0.6264188598570656, 0.8861973452881222,
        0.5201165618867006, 0.24801039044398193, 0.7469219660458598, 0.0457624941792418]),
    ("gammaincc", [0.5, 0.25, 1.5, 4.25, 19.5, 60.0, 950.0], [0.004390986141102559, 0.3735811401429345, 0.1138026547118778,
        0.13074778927442526, 0.027309199557314968, 0.0025481923036133223, 0.04969414310499233]),
)
# erfinv, gammaln and erfc, across the ends of what each polynomial serves.
PIECES = {
    "erfinv": ([1e-12, 0.015625, 0.1875, 0.5, 0.75, 0.921875, 0.96875, 0.99609375, 0.998046875, 0.9990234375, 1 - 2**-15, 1 - 2**-24,
                1 - 2**-53],
        [8.86226925452758e-13, 0.01384818089091429, 0.1677272200181386, 0.4769362762044699, 0.8134198475976185, 1.2456890933834126,
         1.523019401996956, 2.0404520146056093, 2.190099968353768, 2.331467773621948, 2.948330743167557, 3.832506856900711,
         5.8635847487551676]),
    "gammaln": ([1e-300, 1e-09, 0.0625, 0.4921875, 0.5, 0.75, 0.9990234375, 1.0009765625, 1.25, 1.9375, 2.0009765625, 3.75, 7.9921875,
                 8.0078125, 20.5, 1e5, 1e200, -0.25, -1.75, -20.0625],
        [690.7755278982137, 20.723265836369194, 2.7396316219462036, 0.5878568159567235, 0.5723649429247001, 0.20328095143129538,
         0.0005644719118551234, -0.0005629031799912047, -0.09827183642181316, -0.02514761940298887, 0.00041318279306425424,
         1.486815578593417, 8.509418226445499, 8.540912621725283, 40.8315009745308, 1051287.7089736569, 4.595170185988091e+202,
         1.589575312551186, 1.0160888092144358, -39.745471845482484]),
    "erfc": ([-25.0, -4.5, -0.75, -1e-09, 1e-09, 0.1875, 0.84375, 1.5, 2.015625, 4.75, 9.0, 15.5, 25.984375, 26.015625, 27.0],
        [2.0, 1.999999999803384, 1.7111556336535152, 1.0000000011283792, 0.9999999988716208, 0.7908823229406241, 0.23277433876765838,
         0.033894853524689274, 0.0043647227212005755, 1.8485047721485312e-11, 4.13703174651381e-37, 1.6632016400488723e-106,
         1.2766746721123101e-295, 2.510906206209662e-296, 5.23705e-319]),
}


@pytest.mark.parametrize("name, most", (("erfinv", 4), ("gammaln", 2), ("erfc", 6)))
def test_values_across_pieces(name, most):
    x, exact = (np.array(values) for values in PIECES[name])
    found = getattr(volta.special, name)(volta.tensor(x)).numpy()
    assert (np.abs(found - exact) / np.spacing(np.abs(exact))).max() <= most


def test_error_functions_undo_each_other():
    x = np.r_[np.linspace(-0.999, 0.999, 4001), 1 - np.exp2(-np.linspace(1, 50, 500))]
    back = volta.erf(volta.erfinv(volta.tensor(x))).numpy()
    np.testing.assert_allclose(back, x, rtol=4e-16, atol=1e-16)
    x = np.linspace(0.3, 40, 4001)
    step = volta.lgamma(volta.tensor(x + 1)) - volta.lgamma(volta.tensor(x))
    np.testing.assert_allclose(step.numpy(), np.log(x), rtol=0, atol=1e-13)
    single = volta.erfinv(volta.linspace(-0.9999, 0.9999, 4001)).numpy()
    np.testing.assert_array_max_ulp(single, volta.erfinv(volta.linspace(-0.9999, 0.9999, 4001).double()).numpy().astype("f4"), maxulp=4)


@pytest.mark.parametrize("dtype", ("float16", "bfloat16", "float32", "float64"))
@pytest.mark.parametrize("name", ("erfinv", "lgamma", "erfc", "elu", "selu", "logsigmoid", "softplus", "logit"))
def test_lines_do_not_depend_on_neighbours(name, dtype):
    """Values and slopes, beside numbers that other formulas serve."""
    function = getattr(volta, name, None) or getattr(volta.nn.functional, name)
    x = volta.linspace(-0.95, 0.95, 701).to(getattr(volta, dtype))
    x[100::50], x[120::90], x[33], x[500], x[501] = 0.9995, 27.5, np.nan, np.inf, -0.0
    def both(part):
        part = part.detach().requires_grad_()
        y = function(part)
        return y.detach(), volta.autograd.grad(y.sum(), part)[0]
    whole = both(x)
    for start, stop in ((0, 1), (20, 57), (99, 102), (32, 34), (118, 420), (499, 503)):
        for a, b in zip(both(x[start:stop].clone()), whole):
            a, b = a.float().numpy(), b[start:stop].float().numpy()
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(np.signbit(a[a == a]), np.signbit(b[b == b]))


def test_ends_of_erfinv_and_lgamma():
    for dtype in (volta.float32, volta.float64):
        x = volta.tensor([0.0, -0.0, 1, -1, 1.5, -2, np.inf, -np.inf, np.nan], dtype=dtype)
        found = volta.erfinv(x).numpy()
        np.testing.assert_array_equal(found, [0, 0, np.inf, -np.inf, *[np.nan] * 5])
        assert np.signbit(found[:2]).tolist() == [False, True]
        found = volta.lgamma(x).numpy()
        np.testing.assert_array_equal(found[[0, 1, 2, 3, 5, 6, 7, 8]], [np.inf, np.inf, 0, *[np.inf] * 4, np.nan])
        assert not np.signbit(found[2])


# Units in the last place of float64; of J, Y and Ai, which have zeros, those of the largest values nearby, and as many as phases have.
# (Without products that are rounded once, the squares in J and Y cost a few more.)
MOST = {"airy_ai": 20, "erfcx": 6, "ndtr": 6, "log_ndtr": 6}
FAR = {"bessel_j0": 20, "bessel_j1": 20, "bessel_y0": 20, "bessel_y1": 20}


@pytest.mark.parametrize("name", tuple(EXACT))
def test_values(name):
    x, exact = EXACT[name][0], np.array(EXACT[name][1])
    found = getattr(volta.special, name)(volta.tensor(x)).numpy()
    unit = np.spacing(np.abs(exact))
    if name in FAR:
        unit = np.spacing(np.maximum(np.abs(exact), np.minimum(0.5, 0.8 / np.sqrt(x))))
    if name == "airy_ai":
        unit = np.maximum(unit, np.where(x < 0, np.spacing(0.5 / np.abs(x) ** 0.25) * np.maximum(1, np.abs(x) ** 1.5 / 3), 0))
        unit = np.where(x > 1.5, unit * x ** 1.5, unit)         # an exponential's argument is rounded
    assert (np.abs(found - exact) / unit).max() < MOST.get(name, FAR.get(name, 10))


@pytest.mark.parametrize("name", tuple(EXACT))
def test_values_in_float32(name):
    x = np.concatenate([EXACT[name][0], np.abs(np.random.default_rng(3).standard_normal(5000)) * 4]).astype("f4")
    function = getattr(volta.special, name)
    found, exact = function(volta.tensor(x)).numpy(), function(volta.tensor(x.astype("f8"))).numpy()
    np.testing.assert_array_max_ulp(found, exact.astype("f4"), maxulp=6 if name in ("erfcx", "ndtr", "log_ndtr") else 2)


@pytest.mark.parametrize("dtype", ("float32", "float64"))
@pytest.mark.parametrize("name", ("bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "airy_ai", "spherical_bessel_j0"))
def test_far_arguments_do_not_depend_on_their_neighbours(name, dtype):
    x = np.linspace(1, 9, 3001)
    x[700::100] = 3e6 if name != "airy_ai" else -3e4
    x[1000], x[1300] = np.inf, np.nan
    function, x = getattr(volta.special, name), volta.tensor(x, dtype=getattr(volta, dtype))
    whole = function(x).numpy()
    assert np.isnan(whole[1300]) and np.isfinite(whole[:1000]).all()
    for start, stop in ((0, 1), (690, 710), (699, 1801), (1000, 1001)):
        assert function(x[start:stop]).numpy().tobytes() == whole[start:stop].tobytes()


@pytest.mark.parametrize("name, ends", (
    ("bessel_j0", (1, 1, np.nan, np.nan)), ("bessel_j1", (0.0, -0.0, np.nan, np.nan)), ("bessel_y0", (-np.inf, -np.inf, np.nan, np.nan)),
    ("bessel_y1", (-np.inf, -np.inf, np.nan, np.nan)), ("modified_bessel_k0", (np.inf, np.inf, 0.0, np.nan)),
    ("scaled_modified_bessel_k1", (np.inf, np.inf, 0.0, np.nan)), ("erfcx", (1, 1, 0.0, np.inf)), ("ndtr", (0.5, 0.5, 1, 0.0)),
    ("spherical_bessel_j0", (1, 1, 0.0, 0.0))))
@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_ends(name, ends, dtype):
    found = getattr(volta.special, name)(volta.tensor([0.0, -0.0, np.inf, -np.inf, np.nan], dtype=getattr(volta, dtype))).numpy()
    np.testing.assert_array_equal(found, [*ends, np.nan])
    assert np.signbit(found[:2]).tolist() == np.signbit(ends[:2]).tolist()


@pytest.mark.parametrize("name, slope", (("logsigmoid", lambda x: 1 / (1 + np.exp(x))), ("logit", lambda x: 1 / (x * (1 - x)))))
def test_slopes(name, slope):
    x = np.linspace(0.001, 0.999, 301)
    where = volta.tensor(x, requires_grad=True)
    (getattr(volta, name, None) or getattr(volta.nn.functional, name))(where).sum().backward()
    np.testing.assert_allclose(where.grad.numpy(), slope(x), rtol=1e-13)


def test_slope_of_logit_beyond_its_domain():
    x = volta.tensor([-0.5, 0.0, 1.0, 1.5, np.nan], requires_grad=True)
    volta.logit(x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [np.nan, np.inf, np.inf, np.nan, np.nan])


def test_slope_of_log_ndtr():
    x = np.array([-30.0, -5.0, -0.5, 0.0, 0.5, 5.0, 30.0, np.inf, -np.inf, np.nan])
    where = volta.tensor(x, requires_grad=True)
    volta.special.log_ndtr(where).sum().backward()
    exact = [30.033259667433676, 5.18650396712584, 1.1410777703680646, 0.7978845608028654, 0.5091604338370335, 1.4867199409049056e-06,
             1.4736461348785476e-196, 0.0, np.nan, np.nan]
    np.testing.assert_allclose(where.grad.numpy(), exact, rtol=2e-14)


def test_incomplete_gamma_functions():
    """Beside mpmath, where series, fraction and what is uniform in both meet."""
    a = [0.0078125, 0.375, 0.625, 2.5, 12.0, 40.0, 900.0]
    for name, x, exact in INCOMPLETE:
        found = getattr(volta.special, name)(volta.tensor(a, dtype=volta.float64), volta.tensor(x, dtype=volta.float64)).numpy()
        np.testing.assert_allclose(found, exact, rtol=3e-13)


@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_trigamma_does_not_depend_on_its_neighbours(dtype):
    s, q = np.full(2000, 2.0), np.linspace(0.01, 20, 2000)
    s[900:910], q[1200:1203] = 3, (-1.5, 0, 1e35)
    s, q = (volta.tensor(x, dtype=getattr(volta, dtype)) for x in (s, q))
    whole = volta.special.zeta(s, q).numpy()
    for start, stop in ((0, 5), (895, 915), (905, 906), (1100, 1300), (1200, 1201)):
        assert volta.special.zeta(s[start:stop], q[start:stop]).numpy().tobytes() == whole[start:stop].tobytes()
    exact = [10001.621213528313, 0.6449340668482264, 0.05127082293520312]       # by mpmath
    found = volta.special.zeta(2.0, volta.tensor([0.01, 2.0, 20.0], dtype=volta.float64)).numpy()
    np.testing.assert_allclose(found, exact, rtol=1e-14)
